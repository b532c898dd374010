#include "bench/gpu/cublas_api.h"
#include "bench/gpu/peers.h"
#include "bench/gpu/vendor_library.h"

namespace reprise::bench::gpu {

using cuda::Scope;

class Cublas {
 public:
  explicit Cublas(std::shared_ptr<const PeerContext> context) : context_(std::move(context)) {}
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;
  ~Cublas() {
    if (!handle_) return;
    const Scope scope(*context_->driver);
    cublasDestroy_v2(handle_);
  }

  Status load(std::string& version) {
    RP_ASSIGN(void* library, open_vendor_library({"libcublas.so.13", "libcublas.so.12"}));
#define REPRISE_RESOLVE(name, parameters) RP_TRY(resolve(library, #name, name));
    REPRISE_CUBLAS_SYMBOLS(REPRISE_RESOLVE)
#undef REPRISE_RESOLVE
    RP_CUDA_SCOPE(*context_->driver);
    RP_TRY(vendor_check(cublasCreate_v2(&handle_), "cublasCreate"));
    RP_TRY(vendor_check(cublasSetStream_v2(handle_, context_->stream()), "cublasSetStream"));
    int number = 0;
    RP_TRY(vendor_check(cublasGetVersion_v2(handle_, &number), "cublasGetVersion"));
    version = std::to_string(number);
    return {};
  }
  cublasHandle_t handle() const {
    return handle_;
  }
  const std::shared_ptr<const PeerContext>& context() const {
    return context_;
  }

// NOLINTBEGIN(bugprone-macro-parentheses): a declaration takes no parentheses.
#define REPRISE_MEMBER(name, parameters) cublasStatus(*name) parameters = nullptr;
  REPRISE_CUBLAS_SYMBOLS(REPRISE_MEMBER)
#undef REPRISE_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)

 private:
  std::shared_ptr<const PeerContext> context_;
  cublasHandle_t handle_ = nullptr;
};

namespace {

int type_of(DType t) {
  return t == DType::F16 ? kCudaR16F : t == DType::BF16 ? kCudaR16BF : kCudaR32F;
}

class Gemm final : public StreamPeer {
 public:
  Gemm(std::shared_ptr<const Cublas> cublas, const GemmOp& op, DType dtype, bool tf32)
      : StreamPeer(cublas->context()),
        cublas_(std::move(cublas)),
        op_(op),
        type_(type_of(dtype)),
        compute_(tf32 ? kCublasCompute32FFastTf32 : kCublasCompute32F) {}

  Status prepare(const Tensors& values) {
    RP_TRY(add_input(values[0]));
    RP_TRY(add_input(values[1]));
    return add_output(values[0].dtype(), {op_.m, op_.n});
  }

 protected:
  /// cuBLAS is column-major, so it computes y^T = w^T x^T.
  Status enqueue() override {
    const float one = 1, zero = 0;
    const auto m = static_cast<int>(op_.m), n = static_cast<int>(op_.n);
    const auto k = static_cast<int>(op_.k);
    return vendor_check(
        cublas_->cublasGemmEx(cublas_->handle(), kCublasOpN, kCublasOpN, n, m, k, &one, input(1),
                              type_, n, input(0), type_, k, &zero, output_memory(), type_, n,
                              compute_, kCublasGemmDefault),
        "cublasGemmEx");
  }

 private:
  std::shared_ptr<const Cublas> cublas_;
  GemmOp op_;
  int type_, compute_;
};

}  // namespace

Result<std::shared_ptr<const Cublas>> open_cublas(std::shared_ptr<const PeerContext> context,
                                                  std::string& version) {
  auto cublas = std::make_shared<Cublas>(std::move(context));
  RP_TRY(cublas->load(version));
  return std::shared_ptr<const Cublas>(std::move(cublas));
}

Result<ContenderPtr> cublas_gemm(std::shared_ptr<const Cublas> cublas, const GemmOp& op,
                                 const Tensors& values, bool tf32) {
  auto peer = std::make_unique<Gemm>(std::move(cublas), op, values[0].dtype(), tf32);
  RP_TRY(peer->prepare(values));
  return ContenderPtr(std::move(peer));
}

}  // namespace reprise::bench::gpu
