#include "checksum.h"

#include <bit>
#include <cstring>

namespace stet::cpu {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5;

template <class Word>
Word load(const std::byte* data) {
  Word word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

uint64_t mix(uint64_t sum, uint64_t word) { return std::rotl(sum + word * kPrime2, 31) * kPrime1; }

uint64_t join(uint64_t hash, uint64_t sum) { return (hash ^ mix(0, sum)) * kPrime1 + kPrime4; }

uint64_t finish(uint64_t hash) {
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

}  // namespace

uint64_t xxh64(const std::byte* data, size_t size) {
  const std::byte* const end = data + size;
  uint64_t hash = kPrime5;
  if (size >= 32) {
    uint64_t sums[4] = {kPrime1 + kPrime2, kPrime2, 0, uint64_t{0} - kPrime1};
    for (; end - data >= 32; data += 32) {
      for (int i = 0; i < 4; i++) sums[i] = mix(sums[i], load<uint64_t>(data + 8 * i));
    }
    hash = std::rotl(sums[0], 1) + std::rotl(sums[1], 7) + std::rotl(sums[2], 12) + std::rotl(sums[3], 18);
    for (const uint64_t sum : sums) hash = join(hash, sum);
  }
  hash += size;
  for (; end - data >= 8; data += 8) hash = std::rotl(hash ^ mix(0, load<uint64_t>(data)), 27) * kPrime1 + kPrime4;
  if (end - data >= 4) {
    hash = std::rotl(hash ^ load<uint32_t>(data) * kPrime1, 23) * kPrime2 + kPrime3;
    data += 4;
  }
  for (; data < end; data++) hash = std::rotl(hash ^ static_cast<uint64_t>(*data) * kPrime5, 11) * kPrime1;
  return finish(hash);
}

}  // namespace stet::cpu
