#include "pool.h"

#include <cstdlib>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stet::cpu {
namespace {

// A pause takes some 40 to 140 cycles. Inside a job the next section is microseconds away, so a thread looks for it
// for about a tenth of a millisecond before it sleeps; between jobs only as long as it takes a caller to send the next.
constexpr int32_t kSpinsInJob = 2000;
constexpr int32_t kSpinsIdle = 500;

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr uint32_t kTaskMask = 0xffff;
constexpr uint32_t kEpochUnit = 0x10000;

}  // namespace

Pool::Pool(int32_t threadCount) : threadCount_(threadCount) {
  threads_.reserve(threadCount - 1);
  try {
    for (int32_t thread = 1; thread < threadCount; thread++) threads_.emplace_back([this, thread] { work(thread); });
  } catch (...) {
    stopping_.store(true);
    publish(0);
    for (auto& thread : threads_) thread.join();
    throw;
  }
}

Pool::~Pool() {
  stopping_.store(true);
  publish(0);
  for (auto& thread : threads_) thread.join();
}

void Pool::run(Job& job) {
  const int32_t taskCount = job.advance();
  if (taskCount == 0) return;
  job_ = &job;
  finished_.store(false, std::memory_order_relaxed);
  publish(taskCount);
  uint32_t seen = word_.load(std::memory_order_acquire);
  while (!finished_.load(std::memory_order_acquire)) {
    drain(0);
    if (finished_.load(std::memory_order_acquire)) break;
    seen = waitForChange(seen, kSpinsInJob);
  }
  job_ = nullptr;
}

void Pool::work(int32_t thread) {
  uint32_t seen = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    drain(thread);
    const bool idle = finished_.load(std::memory_order_acquire);
    seen = waitForChange(seen, idle ? kSpinsIdle : kSpinsInJob);
  }
}

void Pool::drain(int32_t thread) {
  uint32_t word = word_.load(std::memory_order_acquire);
  while (const uint32_t unclaimed = word & kTaskMask) {
    if (!word_.compare_exchange_weak(word, word - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    Job& job = *job_;
    const int32_t taskCount = taskCount_;
    job.runTask(taskCount - static_cast<int32_t>(unclaimed), thread);
    if (finishedTasks_.fetch_add(1, std::memory_order_acq_rel) + 1 == taskCount) publish(job.advance());
    word = word_.load(std::memory_order_acquire);
  }
}

void Pool::publish(int32_t taskCount) {
  if (taskCount < 0 || taskCount > kMaxTasks) std::abort();
  taskCount_ = taskCount;
  finishedTasks_.store(0, std::memory_order_relaxed);
  if (taskCount == 0) finished_.store(true, std::memory_order_release);
  const uint32_t epoch = word_.load(std::memory_order_relaxed) & ~kTaskMask;
  word_.store(epoch + kEpochUnit + static_cast<uint32_t>(taskCount), std::memory_order_release);
  // Orders the store before the look for sleepers that notify_all begins with; else one that is just going to sleep
  // could miss both.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  word_.notify_all();
}

// Returns the word once its epoch differs from that of `seen` or it has tasks to claim.
uint32_t Pool::waitForChange(uint32_t seen, int32_t spins) const {
  for (int32_t i = 0;; i++) {
    const uint32_t word = word_.load(std::memory_order_acquire);
    if ((word & ~kTaskMask) != (seen & ~kTaskMask) || (word & kTaskMask) != 0) return word;
    if (i < spins) {
      pause();
    } else {
      word_.wait(word, std::memory_order_acquire);
    }
  }
}

}  // namespace stet::cpu
