struct k_early_block {
  unsigned* error;
  unsigned launch_id, zero;
  const float* b0_x;
  float* b1_y;
  int s0_n;
};
extern "C" __global__ void __launch_bounds__(64) k_early(const __grid_constant__ k_early_block block) {
  rp_let_next_begin();
  const float* const b0_x = block.b0_x;
  float* const b1_y = block.b1_y;
  const int s0_n = block.s0_n;
  const unsigned v1 = blockIdx.x * 64u + threadIdx.x;
  const int v2 = (int)v1;
  const bool v3 = v2 < s0_n;
  rp_await_launches();
  if (v3) {
    const float v5 = b0_x[v2];
    const float v6 = v5 + 1.0f;
    b1_y[v2] = v6;
  }
}
