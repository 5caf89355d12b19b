// The kinds of activations.
#ifndef DPIPE_CORE_OPS_ELEMENTWISE_ACTIVATION_KIND_H_
#define DPIPE_CORE_OPS_ELEMENTWISE_ACTIVATION_KIND_H_

namespace dpipe::ops {

enum class Activation {
  kSilu,       // x sigmoid(x)
  kGelu,       // x (1 + erf(x / sqrt 2)) / 2, the exact one
  kGeluTanh,   // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
  kQuickGelu,  // x sigmoid(1.702 x), CLIP's
};

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_ELEMENTWISE_ACTIVATION_KIND_H_
