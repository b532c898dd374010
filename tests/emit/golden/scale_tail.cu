struct k_scale_tail_block {
  unsigned* error;
  unsigned launch_id, zero;
  const float* b0_x;
  float* b1_y;
  int s0_n;
  float s1_scale;
};
extern "C" __global__ void __launch_bounds__(64) k_scale_tail(const __grid_constant__ k_scale_tail_block block) {
  const float* const b0_x = block.b0_x;
  float* const b1_y = block.b1_y;
  const int s0_n = block.s0_n;
  const float s1_scale = block.s1_scale;
  const unsigned v3 = blockIdx.x * 64u + threadIdx.x;
  const int v4 = (int)v3;
  const int v5 = (int)((unsigned)v4 * 4u);
  const int v6 = (int)((unsigned)v5 + 4u);
  const bool v7 = v6 <= s0_n;
  if (v7) {
    const rp_f32x4 v8 = {s1_scale, s1_scale, s1_scale, s1_scale};
    const rp_f32x4 v9 = *(const rp_f32x4*)(b0_x + v5);
    const rp_f32x4 v10 = {v9.x * v8.x, v9.y * v8.y, v9.z * v8.z, v9.w * v8.w};
    *(rp_f32x4*)(b1_y + v5) = v10;
  } else {
    for (int v13 = v5; v13 < s0_n; v13 += 1) {
      const float v14 = b0_x[v13];
      const float v15 = v14 * s1_scale;
      b1_y[v13] = v15;
    }
  }
}
