// kv_write and attention in plain C++.
#include "attention_batch_shaped.inl.h"
#include "kv_write.inl.h"
#include "lanes_scalar.h"
#include "sets.h"

namespace stet::cpu {

const AttentionSet scalarAttention{kvBlockBytes, kvWrite<ScalarLanes>, attentionScratchBytes, attention<ScalarLanes>,
                                 batchShapedScratchBytes, batchShapedAttention<ScalarLanes>};

}  // namespace stet::cpu
