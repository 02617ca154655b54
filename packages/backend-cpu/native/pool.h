// The threads that share the sections of a job. A section is a number of independent tasks; whoever finishes its last
// task sets up the next one, and runs what is too small to share by itself meanwhile. A section waits for its tasks
// and never for a thread: one that sleeps, or that the system has taken off its core, holds nobody up.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace stet::cpu {

class Job {
 public:
  virtual ~Job() = default;
  // Prepares the next section and returns its number of tasks, at most kMaxTasks; 0 ends the job. Runs on any thread,
  // alone, after every task of the section before.
  virtual int32_t advance() = 0;
  virtual void runTask(int32_t task, int32_t thread) = 0;
};

constexpr int32_t kMaxTasks = 0xffff;

class Pool {
 public:
  // Starts threadCount - 1 threads; the caller of `run` is the other one. Throws std::system_error.
  explicit Pool(int32_t threadCount);
  // Must not be called during `run`.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int32_t threadCount() const { return threadCount_; }
  // Runs the job to its end on all threads.
  void run(Job& job);

 private:
  void work(int32_t thread);
  // Claims and runs tasks until the section has none left.
  void drain(int32_t thread);
  void publish(int32_t taskCount);
  uint32_t waitForChange(uint32_t seen, int32_t spins) const;

  // Epoch (high 16 bits) and tasks not yet claimed (low 16 bits) of the current section. The epoch makes every
  // section another value to wait for; a claim needs none of it, since a successful exchange proves that the word,
  // and so the section, is the current one.
  alignas(64) std::atomic<uint32_t> word_{0};
  alignas(64) std::atomic<int32_t> finishedTasks_{0};
  // Written by the finisher of a section before it publishes the next, read by those who claimed a task of it.
  alignas(64) int32_t taskCount_ = 0;
  Job* job_ = nullptr;
  std::atomic<bool> finished_{true};
  std::atomic<bool> stopping_{false};
  int32_t threadCount_;
  std::vector<std::thread> threads_;
};

}  // namespace stet::cpu
