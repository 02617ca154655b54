// kv_write and attention by AVX2.
#include "attention_batch_shaped.inl.h"
#include "kv_write.inl.h"
#include "lanes_avx2.h"
#include "sets.h"

namespace stet::cpu {

const AttentionSet avx2Attention{kvBlockBytes, kvWrite<Avx2Lanes>, attentionScratchBytes, attention<Avx2Lanes>,
                                 batchShapedScratchBytes, batchShapedAttention<Avx2Lanes>};

}  // namespace stet::cpu
