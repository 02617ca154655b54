// What this CPU and its operating system offer, found once.
#pragma once

namespace stet::cpu {

struct Features {
  const char* missingAvx2;    // the first feature that Isa::avx2 lacks, or null
  const char* missingAvx512;  // the same for Isa::avx512
  bool vnni;
  bool bf16Dot;
  bool amxBf16;               // tile registers, granted to this process
};

const Features& features();

}  // namespace stet::cpu
