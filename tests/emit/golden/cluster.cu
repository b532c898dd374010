struct k_cluster_block {
  unsigned* error;
  unsigned launch_id, zero;
  const float* b0_x;
  float* b1_y;
  int s0_zero;
  int s1_columns;
  int s2_rows;
  rp_tensor_map t0_box;
};
extern "C" __global__ void __launch_bounds__(128, 1) __cluster_dims__(2, 1, 1) k_cluster(const __grid_constant__ k_cluster_block block) {
  float* const b1_y = block.b1_y;
  __shared__ __align__(128) float m0_pair[256];
  __shared__ __align__(128) float m1_sums[512];
  __shared__ rp_signal g0_full[1];
  __shared__ rp_signal g1_ready[1];
  if (threadIdx.x == 0u) { rp_begin_signals(g0_full, 1u, 2u); rp_begin_signals(g1_ready, 1u, 1u); rp_publish_signals(); }
  rp_cluster_barrier();
  const unsigned v4 = rp_cluster_rank();
  const unsigned v5 = (threadIdx.x) & 31u;
  if (threadIdx.x < 128u) {
    if (threadIdx.x < 32u) {
    const int v7 = (int)v4;
    const int v8 = (int)v5;
    const int v9 = (int)((unsigned)v7 * 128u);
    const int v10 = (int)((unsigned)v7 * 4u);
    const rp_i32x2 v11 = {0, v10};
    rp_box_spread(m0_pair + v9, &block.t0_box, g0_full + 0, 512u, 3u, v11.x, v11.y);
    rp_arrive_fenced(g0_full + 0, (unsigned)0);
    rp_arrive_fenced(g0_full + 0, (unsigned)1);
    rp_await_fenced(g0_full + 0, (unsigned)0);
    const int v16 = (int)((unsigned)v8 * 4u);
    const rp_f32x4 v17 = *(const rp_f32x4*)(m0_pair + v16);
    *(rp_f32x4*)(m1_sums + v16) = v17;
    const int v19 = (int)(1u - (unsigned)v7);
    rp_arrive_fenced(g1_ready + 0, (unsigned)v19);
    rp_await_fenced(g1_ready + 0, (unsigned)0);
    const rp_f32x4 v22 = rp_bitcast<rp_f32x4>(rp_load_of<rp_u32x4>(m1_sums + v16, (unsigned)v19));
    const float v23 = rp_bitcast<float>(rp_load_of<unsigned>(m1_sums + v8, (unsigned)0));
    const rp_f32x4 v24 = {v23, v23, v23, v23};
    const rp_f32x4 v25 = {v22.x + v24.x, v22.y + v24.y, v22.z + v24.z, v22.w + v24.w};
    *(rp_f32x4*)(b1_y + v16) = v25;
    rp_cluster_barrier();
    }
  }
}
