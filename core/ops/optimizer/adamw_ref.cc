#include <cmath>

#include "core/ops/optimizer/adamw_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {

void AdamWStep(const AdamWFactors& factors, const Tensor& grad, Tensor* parameter, Tensor* m,
               Tensor* v) {
  for (int64_t i = 0; i < grad.num_elements(); ++i) {
    const double g = factors.grad_scale * Get(grad, i);
    Put(*m, i, Get(*m, i) + factors.one_minus_beta1 * (g - Get(*m, i)));
    Put(*v, i, factors.beta2 * Get(*v, i) + factors.one_minus_beta2 * g * g);
    const double denominator = std::sqrt(Get(*v, i)) * factors.inverse_sqrt_bias2 + factors.eps;
    Put(*parameter, i,
        factors.decay * Get(*parameter, i) - factors.step_size * Get(*m, i) / denominator);
  }
}

void AdamWPredict(const AdamWFactors& factors, const AdamWPrediction& prediction) {
  const Tensor& parameter = prediction.parameter;
  for (int64_t i = 0; i < parameter.num_elements(); ++i) {
    const double denominator =
        std::sqrt(Get(prediction.v, i)) * factors.inverse_sqrt_bias2 + factors.eps;
    Put(parameter, i,
        factors.decay * Get(parameter, i) - factors.step_size * Get(prediction.m, i) / denominator);
  }
}

void AdamWInt8Step(const AdamWInt8Task& task) {
  const Shape& shape = task.grad.shape();
  Tensor parameter = task.parameter, m = task.m->Load(shape), v = task.root_v->LoadSquares(shape);
  AdamWStep(task.factors, task.grad, &parameter, &m, &v);
  for (int64_t i = 0; i < v.num_elements(); ++i) Put(v, i, std::sqrt(Get(v, i)));
  task.m->Store(m);
  task.root_v->Store(v);
}

double SumOfSquares(const Tensor& x) {
  double sum = 0;
  for (int64_t i = 0; i < x.num_elements(); ++i) sum += Get(x, i) * Get(x, i);
  return sum;
}

}  // namespace dpipe::ops::ref
