// kv_write by AVX-512 with VNNI, attention by tile instructions of int8 where there are queries enough.
#include "attention_batch_shaped.inl.h"
#include "attention_tiles.inl.h"
#include "kv_write.inl.h"
#include "sets.h"

namespace stet::cpu {

const AttentionSet amxAttention{kvBlockBytes, kvWrite<VnniLanes>, tileScratchBytes, tileAttention,
                                 batchShapedScratchBytes, batchShapedAttention<VnniLanes>};

}  // namespace stet::cpu
