// linear_q4 by tile instructions of int8 for many rows, by AVX-512 with VNNI for few.
#include "byte_tiles.inl.h"
#include "linear_q4.inl.h"

namespace stet::cpu {

const ByteSet amxQ4{{q4MatrixBytes, packQ4, embedQ4}, {byteInputBytes, prepareQ4Input<VnniByteLanes>, byteTiles<Q4Format>}};

}  // namespace stet::cpu
