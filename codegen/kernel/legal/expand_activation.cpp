// Activation functions that are more than a composition of rows.
#include "codegen/kernel/legal/expand_math.h"

namespace reprise::kernel {

Val FloatMath::softplus(Val x) {
  // max(x, 0) + log(1 + e), e = exp(-|x|) in [0, 1]: log(1 + e) = 2 s + s^3 R(s^2), s = e / (2 + e)
  const Val e = exp(neg(abs(x)));
  const Val s = b_.div(e, b_.add(c(2), e));
  const Val z = b_.mul(s, s);
  const Val p = polynomial(z, f_.logarithm_to_2);
  return b_.add(relu(x), b_.add(b_.add(s, s), b_.mul(b_.mul(s, z), p)));
}

Val FloatMath::normal_tail(Val a) {
  const Val t = b_.div(c(1), b_.add(c(1), b_.mul(c(0.3), a)));
  const Val centred = f_.wide() ? b_.sub(b_.add(t, t), c(1)) : t;
  return b_.mul(t, polynomial(centred, f_.normal_tail));
}

Val FloatMath::gelu(Val x) {
  // Accurate relative to the tail, so that x * tail does not cancel.
  const Val e = exp(b_.mul(b_.mul(x, c(-0.5)), x));
  const Val tail = b_.mul(e, normal_tail(abs(x)));
  return b_.mul(x, b_.select(b_.lt(x, c(0)), tail, b_.sub(c(1), tail)));
}

Val FloatMath::gelu_tanh(Val x) {
  // x * sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3))
  constexpr double kScale = -1.5957691216057308;
  const Val inner = b_.add(c(kScale), b_.mul(c(kScale * 0.044715), b_.mul(x, x)));
  const Val e = exp(b_.mul(x, inner));
  return b_.div(x, b_.add(c(1), e));
}

Val FloatMath::hard_swish(Val x) {
  const Val y = b_.add(b_.mul(x, c(1.0 / 6)), c(0.5));
  return b_.mul(x, op(ScalarOp::MinNum, op(ScalarOp::MaxNum, y, c(0)), c(1)));
}

Val FloatMath::mish(Val x) {
  // tanh(log(1 + e)) = n / (n + 2), n = e (e + 2), e = exp(x); it is 1 long before e^2 overflows.
  const Val e = exp(op(ScalarOp::MinNum, x, c(30)));
  const Val n = b_.mul(e, b_.add(e, c(2)));
  return b_.mul(x, b_.div(n, b_.add(n, c(2))));
}

}  // namespace reprise::kernel
