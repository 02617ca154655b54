// A quick checksum of packed weights, for damage and not against forgers.
#pragma once
#include <cstddef>
#include <cstdint>

namespace stet::cpu {

// XXH64 with seed 0, of public test vectors: four independent sums that multiply, so that one core checks about as many
// bytes as it can read. The same on every machine of little-endian order.
uint64_t xxh64(const std::byte* data, size_t size);

}  // namespace stet::cpu
