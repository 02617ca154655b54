/// Sum of the products of four i8 pairs, exact.
fn dot4(a: u32, b: u32) -> i32 {
  return dot4I8Packed(a, b);
}
