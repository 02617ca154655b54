// kv_write and attention by AVX-512 with VNNI.
#include "attention_batch_shaped.inl.h"
#include "kv_write.inl.h"
#include "lanes_avx512vnni.h"
#include "sets.h"

namespace stet::cpu {

const AttentionSet vnniAttention{kvBlockBytes, kvWrite<VnniLanes>, attentionScratchBytes, attention<VnniLanes>,
                                 batchShapedScratchBytes, batchShapedAttention<VnniLanes>};

}  // namespace stet::cpu
