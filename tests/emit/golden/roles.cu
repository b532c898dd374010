struct k_roles_block {
  unsigned* error;
  unsigned launch_id, zero;
  const rp_f16* b0_a;
  const rp_f16* b1_w;
  float* b2_y;
  int s0_zero;
  int s1_m;
  int s2_n;
  int s3_k;
  int s4_stride;
  rp_tensor_map t0_left;
  rp_tensor_map t1_right;
};
RP_FN void k_roles_multiply_1x8kk(rp_team_sum<8>& s0, unsigned long long left, unsigned long long right) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}"
    : "+f"(s0.r[0]), "+f"(s0.r[1]), "+f"(s0.r[2]), "+f"(s0.r[3]) : "l"(left), "l"(right));
}
extern "C" __global__ void __launch_bounds__(256, 1) k_roles(const __grid_constant__ k_roles_block block) {
  float* const b2_y = block.b2_y;
  const int s3_k = block.s3_k;
  __shared__ __align__(1024) rp_f16 m0_lefts[8192];
  __shared__ __align__(1024) rp_f16 m1_rights[1024];
  __shared__ __align__(128) float m2_sums[512];
  rp_team_sum<8> x0_sum;
  __shared__ rp_signal g0_full[2];
  __shared__ rp_signal g1_empty[2];
  if (threadIdx.x == 0u) { rp_begin_signals(g0_full, 2u, 1u); rp_begin_signals(g1_empty, 2u, 4u); rp_publish_signals(); }
  __syncthreads();
  const unsigned v8 = threadIdx.x;
  if (threadIdx.x < 128u) {
    rp_fewer_registers<232>();
    rp_matrix_zero(x0_sum);
    for (int v11 = 0; v11 < s3_k; v11 += 1) {
      const int v12 = v11 / 2;
      const int v13 = (int)((unsigned)v12 * 2u);
      const int v14 = (int)((unsigned)v11 - (unsigned)v13);
      const int v15 = v12 / 2;
      const int v16 = (int)((unsigned)v15 * 2u);
      const int v17 = (int)((unsigned)v12 - (unsigned)v16);
      rp_await(g0_full + v14, (unsigned)v17);
      const int v19 = (int)((unsigned)v14 * 512u);
      const int v20 = (int)((unsigned)v14 * 4096u);
      rp_hold(x0_sum);
      rp_team_fence();
      k_roles_multiply_1x8kk(x0_sum, rp_operand(m0_lefts + v20, 0u), rp_operand(m1_rights + v19, 0u));
      rp_team_commit();
      rp_team_await<0>();
      rp_hold(x0_sum);
      rp_arrive(g1_empty + v14);
    }
    rp_matrix_store_pairs(x0_sum, m2_sums + 0, 8, 1);
    rp_team_barrier();
    const int v27 = (int)v8;
    const int v28 = (int)((unsigned)v27 * 4u);
    const rp_f32x4 v29 = *(const rp_f32x4*)(m2_sums + v28);
    *(rp_f32x4*)(b2_y + v28) = v29;
  }
  else if (threadIdx.x < 256u) {
    rp_fewer_registers<40>();
    if (threadIdx.x < 160u) {
    for (int v31 = 0; v31 < s3_k; v31 += 1) {
      const int v32 = v31 / 2;
      const int v33 = (int)((unsigned)v32 * 2u);
      const int v34 = (int)((unsigned)v31 - (unsigned)v33);
      const int v35 = v32 / 2;
      const int v36 = (int)((unsigned)v35 * 2u);
      const int v37 = (int)((unsigned)v32 - (unsigned)v36);
      const int v38 = (int)(1u - (unsigned)v37);
      rp_await(g1_empty + v34, (unsigned)v38);
      const int v40 = (int)((unsigned)v34 * 4096u);
      const int v41 = (int)((unsigned)v31 * 64u);
      const rp_i32x2 v42 = {v41, 0};
      rp_box_copy(m0_lefts + v40, &block.t0_left, g0_full + v34, 8192u, v42.x, v42.y);
      const int v44 = (int)((unsigned)v34 * 512u);
      rp_box_copy(m1_rights + v44, &block.t1_right, g0_full + v34, 1024u, v42.x, v42.y);
      rp_arrive(g0_full + v34);
    }
    }
  }
}
