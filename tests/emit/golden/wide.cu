struct k_wide_block {
  unsigned* error;
  unsigned launch_id, zero;
  const float* b0_x;
  float* b1_y;
};
extern "C" __global__ void __launch_bounds__(8) k_wide(const __grid_constant__ k_wide_block block) {
  const float* const b0_x = block.b0_x;
  float* const b1_y = block.b1_y;
  const unsigned v1 = blockIdx.x * 8u + threadIdx.x;
  const int v2 = (int)v1;
  const int v3 = (int)((unsigned)v2 * 4u);
  const rp_f32x4 v4 = *(const rp_f32x4*)(b0_x + v3);
  const rp_f32x4 v5 = {-v4.x, -v4.y, -v4.z, -v4.w};
  const rp_boolx4 v7 = {v4.x < 0.0f, v4.y < 0.0f, v4.z < 0.0f, v4.w < 0.0f};
  const rp_f32x4 v8 = {v7.x ? v5.x : v4.x, v7.y ? v5.y : v4.y, v7.z ? v5.z : v4.z, v7.w ? v5.w : v4.w};
  *(rp_f32x4*)(b1_y + v3) = v8;
}
