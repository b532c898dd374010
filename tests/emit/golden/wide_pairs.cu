struct k_wide_pairs_block {
  unsigned* error;
  unsigned launch_id, zero;
  const float* b0_x;
  float* b1_y;
};
extern "C" __global__ void __launch_bounds__(8) k_wide_pairs(const __grid_constant__ k_wide_pairs_block block) {
  const float* const b0_x = block.b0_x;
  float* const b1_y = block.b1_y;
  const unsigned v0 = blockIdx.x * 8u + threadIdx.x;
  const int v1 = (int)v0;
  const int v3 = (int)((unsigned)v1 * 4u);
  const int v5 = (int)((unsigned)v1 * 2u);
  const rp_f32x4 v6 = *(const rp_f32x4*)(b0_x + v3);
  const rp_f32x2 v7 = *(const rp_f32x2*)(b0_x + v5);
  const float v8 = v6.x;
  const float v9 = v6.w;
  const rp_f32x2 v10 = {v8, v9};
  const rp_f32x2 v11 = {v7.x + v10.x, v7.y + v10.y};
  *(rp_f32x2*)(b1_y + v5) = v11;
}
