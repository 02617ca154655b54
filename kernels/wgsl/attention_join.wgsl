// How chunks are joined (docs/NUMERICS.md, step 4), in ascending order. In front of attention.wgsl and attention_joined.wgsl.

/// The largest integer part so far, and by how much to scale down what was summed and what the chunk has.
struct Join {
  most: i32,
  old_shift: i32,
  chunk_shift: i32,
}

fn join_of(most: i32, chunk_most: i32, is_first: bool) -> Join {
  let new_most = select(max(most, chunk_most), chunk_most, is_first);
  return Join(new_most, select(new_most - most, 0, is_first), new_most - chunk_most);
}

fn joined(join: Join, old: f32, chunk: f32) -> f32 {
  return fence(scale_down(old, join.old_shift) + scale_down(chunk, join.chunk_shift));
}
