//! What makes steps on a CPU take the same time each, on a busy machine too.

use std::hint::black_box;

const ALLOCATOR_KEEPS: usize = 16 << 20;

/// Settles how matrices are multiplied and what the allocator does with freed memory. Nothing that is computed depends on it.
pub fn settle() {
    // Matrices as small as these are multiplied by one thread: two lose more by waiting for one another than they win.
    gemm::set_threading_threshold(usize::MAX);
    // glibc takes the size of the largest block that was freed for the size below which freed memory is worth keeping. Without this
    // hint it gives a step's tensors back to the system and asks for them anew at the next step, which costs half of the time, until
    // the first large tensor is freed somewhere. Elsewhere this does nothing.
    drop(black_box(Vec::<u8>::with_capacity(ALLOCATOR_KEEPS)));
}
