// linear_q8 by tile instructions of int8 for many rows, by AVX-512 with VNNI for few.
#include "byte_tiles.inl.h"
#include "linear_q8.inl.h"

namespace stet::cpu {

const ByteSet amxQ8{{q8MatrixBytes, packQ8<VnniByteLanes>, embedQ8<VnniByteLanes>}, {byteInputBytes, prepareQ8Input<VnniByteLanes>, byteTiles<Q8Format>}};

}  // namespace stet::cpu
