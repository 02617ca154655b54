// Where K/V lie in the buffers of a layer (src/kv/kv-layout.ts), in words. Kernels that read or write them have these parameters.

/// First word of the head block that holds a position of the sequence whose table begins at `table`.
fn head_block(table: i32, position: u32, kv_head: u32) -> u32 {
  let block = u32(tables[u32(table) + position / params.blockSize]);
  return (block * params.kvHeadCount + kv_head) * params.headBlockWords;
}

/// Words of one plane of a head block, and where its exponents begin.
fn plane_words() -> u32 {
  return params.blockSize * params.headWords;
}
