#include <cmath>

#include "core/ops/optimizer/optimizer_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {

void AdamWStep(const AdamWTask& task) {
  const AdamWFactors& factors = task.factors;
  const Tensor &grad = task.grad, &parameter = task.parameter, &m = task.m, &v = task.v;
  for (int64_t i = 0; i < grad.num_elements(); ++i) {
    const double g = factors.grad_scale * Get(grad, i);
    Put(m, i, Get(m, i) + factors.one_minus_beta1 * (g - Get(m, i)));
    Put(v, i, factors.beta2 * Get(v, i) + factors.one_minus_beta2 * g * g);
    const double denominator = std::sqrt(Get(v, i)) * factors.inverse_sqrt_bias2 + factors.eps;
    Put(parameter, i,
        factors.decay * Get(parameter, i) - factors.step_size * Get(m, i) / denominator);
  }
}

void PredictOne(const AdamWFactors& factors, const AdamWPrediction& prediction) {
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
  const Tensor m = task.m->Load(shape), v = task.root_v->LoadSquares(shape);
  AdamWStep({task.factors, task.grad, task.parameter, m, v});
  for (int64_t i = 0; i < v.num_elements(); ++i) Put(v, i, std::sqrt(Get(v, i)));
  task.m->Store(m);
  task.root_v->Store(v);
}

double SumOfSquares(const Tensor& x) {
  double sum = 0;
  for (int64_t i = 0; i < x.num_elements(); ++i) sum += Get(x, i) * Get(x, i);
  return sum;
}

void Axpby(float a, float b, absl::Span<const AxpbyPair> pairs) {
  for (const AxpbyPair& pair : pairs) {
    for (int64_t i = 0; i < pair.y.num_elements(); ++i) {
      Put(pair.y, i, double{b} * Get(pair.y, i) + double{a} * Get(pair.x, i));
    }
  }
}

void AdamWSteps(const std::vector<AdamWTask>& tasks) {
  for (const AdamWTask& task : tasks) AdamWStep(task);
}

void AdamWPredict(const AdamWFactors& factors, absl::Span<const AdamWPrediction> predictions) {
  for (const AdamWPrediction& prediction : predictions) PredictOne(factors, prediction);
}

void AdamWInt8Steps(const std::vector<AdamWInt8Task>& tasks) {
  for (const AdamWInt8Task& task : tasks) AdamWInt8Step(task);
}

void SumsOfSquares(absl::Span<const Tensor> tensors, std::vector<double>* sums) {
  for (const Tensor& x : tensors) sums->push_back(SumOfSquares(x));
}

}  // namespace dpipe::ops::ref

namespace dpipe::ops {

const OptimizerKernels OptimizerKernels::kReference = {
    ref::AdamWSteps, ref::AdamWPredict, ref::AdamWInt8Steps, ref::SumsOfSquares, ref::Axpby};

}  // namespace dpipe::ops
