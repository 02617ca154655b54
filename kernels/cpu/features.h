// What this CPU and its operating system offer, found once.
#pragma once

namespace stet::cpu {

struct Features {
  const char* missingAvx2;    // the first feature that Isa::avx2 lacks, or null
  const char* missingAvx512;  // the same for Isa::avx512
  bool avxVnni;               // byte dot products of 256 bits, with AVX2
  bool vnni;
  bool quickBf16Dot;          // a bf16 dot instruction that beats f32 multiply-add
  bool amxBf16;               // tiles of bf16, granted to this process
  bool amxInt8;               // tiles of int8, with VNNI
};

const Features& features();

}  // namespace stet::cpu
