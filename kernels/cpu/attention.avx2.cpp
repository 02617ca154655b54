// kv_write and attention by AVX2.
#include "attention.inl.h"
#include "kv_write.inl.h"
#include "lanes_avx2.h"
#include "sets.h"

namespace stet::cpu {

const AttentionSet avx2Attention{kvBlockBytes, kvWrite<Avx2Lanes>, attentionScratchBytes, attention<Avx2Lanes>};

}  // namespace stet::cpu
