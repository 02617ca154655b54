// rms_norm, rope, swiglu, add and argmax in plain C++.
#include "add.inl.h"
#include "argmax.inl.h"
#include "lanes_scalar.h"
#include "rms_norm.inl.h"
#include "rope.inl.h"
#include "round_bf16.inl.h"
#include "sets.h"
#include "swiglu.inl.h"

namespace stet::cpu {

const ElementSet scalarElements{rmsNorm<ScalarLanes>,
                               rope<ScalarLanes>,
                               swiglu<ScalarLanes, Schedule::fast>,
                               swiglu<ScalarLanes, Schedule::canonical>,
                               add<ScalarLanes>,
                               argmax<ScalarLanes>,
                               roundBf16<ScalarLanes>};

}  // namespace stet::cpu
