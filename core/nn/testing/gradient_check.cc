#include "core/nn/testing/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/philox.h"

namespace dpipe::nn {
namespace {

Tensor RandomTensor(const std::shared_ptr<Device>& device, const Shape& shape, DType dtype,
                    int int_bound, RandomStream* random) {
  if (dtype == DType::kI32) {
    Tensor t = Tensor::Empty(device, shape, dtype);
    for (int32_t& x : t.span<int32_t>()) x = static_cast<int32_t>(random->NextBelow(int_bound));
    return t;
  }
  Tensor t = Tensor::Empty(device, shape, DType::kF32);
  for (float& x : t.span<float>()) x = random->NextNormal();
  return dtype == DType::kF32 ? t : t.To(dtype);
}

// Returns the outputs' weights in the scalar L, which are L's gradients with respect to the
// outputs.
ValueMap RandomOutputGrads(const Program& program, const std::shared_ptr<Device>& device,
                           int64_t batch, DType compute_dtype, uint64_t seed) {
  ValueMap grads;
  for (ValueId id : program.outputs()) {
    const ValueInfo& value = program.value(id);
    if (!value.has_gradient) continue;
    RandomStream random(seed, 1000 + id.value(), 0, RandomPurpose::kTest);
    grads[id] = RandomTensor(device, program.BatchShape(id, batch),
                             ResolveElement(value.type.element, compute_dtype), 1, &random);
  }
  return grads;
}

absl::StatusOr<double> Objective(const Program& program, const ParameterSet& parameters,
                                 ValueMap values, const ValueMap& weights) {
  DPIPE_RETURN_IF_ERROR(
      Forward(program, program.all_layers(), parameters, RunOptions(), &values, nullptr));
  double sum = 0;
  for (const auto& [id, weight] : weights) {
    const float* y = values.at(id).data<float>();
    for (float w : weight.span<float>()) sum += double{w} * double{*y++};
  }
  return sum;
}

// Returns the central difference of L along a direction of one parameter; restores the master.
absl::StatusOr<double> Difference(const Program& program, ParameterSet* parameters, ParameterId id,
                                  const std::vector<float>& direction, double h,
                                  const ValueMap& inputs, const ValueMap& weights) {
  Tensor master = parameters->weight(id).master();
  const Tensor original = master.Clone();
  double objective[2];
  for (int side = 0; side < 2; ++side) {
    for (int64_t i = 0; i < master.num_elements(); ++i) {
      master.data<float>()[i] =
          original.data<float>()[i] + static_cast<float>((side == 0 ? -h : h) * direction[i]);
    }
    parameters->mutable_weight(id)->MarkUpdated();
    DPIPE_ASSIGN_OR_RETURN(objective[side], Objective(program, *parameters, inputs, weights));
  }
  master.CopyFrom(original);
  parameters->mutable_weight(id)->MarkUpdated();
  return (objective[1] - objective[0]) / (2 * h);
}

struct Outcome {
  ValueMap outputs;
  std::vector<Tensor> grads;  // of the trainable parameters, in order
};

std::vector<Tensor> TakeGrads(ParameterSet* parameters) {
  std::vector<Tensor> grads;
  for (ParameterId id : parameters->trainable_ids()) grads.push_back(parameters->grad(id)->Clone());
  parameters->ZeroGrads();
  return grads;
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()) == 0;
}

// Returns only the named entries, as a message would carry them.
ValueMap Pick(const ValueMap& from, absl::Span<const ValueId> ids) {
  ValueMap picked;
  for (ValueId id : ids) {
    const auto it = from.find(id);
    if (it != from.end()) picked[id] = it->second;
  }
  return picked;
}

// The ways in which CheckSplits runs a program.
enum class Mode {
  kTwoParts,          // two states that exchange live values
  kSplitBackward,     // one forward, Backward in two ranges
  kSplitWeightGrads,  // one forward, InputGrad in two ranges, WeightGrads front to back
};

class SplitRun {
 public:
  SplitRun(const Program& program, ParameterSet* parameters, const ValueMap& inputs,
           const ValueMap& output_grads, const RunOptions& options)
      : program_(program),
        parameters_(parameters),
        inputs_(inputs),
        output_grads_(output_grads),
        options_(options) {}

  absl::StatusOr<Outcome> Run(Mode mode, int cut) const {
    parameters_->ZeroGrads();
    Outcome outcome;
    if (mode == Mode::kTwoParts) {
      DPIPE_RETURN_IF_ERROR(TwoParts(cut, &outcome));
    } else {
      DPIPE_RETURN_IF_ERROR(OneForward(mode, cut, &outcome));
    }
    outcome.grads = TakeGrads(parameters_);
    return outcome;
  }

 private:
  absl::Status TwoParts(int cut, Outcome* outcome) const {
    const LayerRange front{0, cut}, back{cut, program_.num_layers()};
    RangeState front_state, back_state;
    ValueMap values = Pick(inputs_, program_.InputsReadBy(front));
    DPIPE_RETURN_IF_ERROR(Forward(program_, front, *parameters_, options_, &values, &front_state));
    outcome->outputs = Pick(values, program_.OutputsOf(front));
    ValueMap live = Pick(values, program_.LiveAt(cut));
    const ValueMap external = Pick(inputs_, program_.InputsReadBy(back));
    live.insert(external.begin(), external.end());
    DPIPE_RETURN_IF_ERROR(Forward(program_, back, *parameters_, options_, &live, &back_state));
    for (const auto& [id, y] : Pick(live, program_.OutputsOf(back))) outcome->outputs[id] = y;
    ValueMap grads = Pick(output_grads_, program_.OutputsOf(back));
    DPIPE_RETURN_IF_ERROR(Backward(program_, back, parameters_, &back_state, &grads));
    grads = Pick(grads, program_.GradientsAt(cut));
    const ValueMap seeds = Pick(output_grads_, program_.OutputsOf(front));
    grads.insert(seeds.begin(), seeds.end());
    return Backward(program_, front, parameters_, &front_state, &grads);
  }

  absl::Status OneForward(Mode mode, int cut, Outcome* outcome) const {
    const LayerRange all = program_.all_layers(), front{0, cut}, back{cut, all.end};
    RangeState state;
    ValueMap values = inputs_, grads = output_grads_;
    DPIPE_RETURN_IF_ERROR(Forward(program_, all, *parameters_, options_, &values, &state));
    outcome->outputs = Pick(values, program_.outputs());
    if (mode == Mode::kSplitBackward) {
      DPIPE_RETURN_IF_ERROR(Backward(program_, back, parameters_, &state, &grads));
      DPIPE_RETURN_IF_ERROR(Backward(program_, front, parameters_, &state, &grads));
    } else {
      DPIPE_RETURN_IF_ERROR(InputGrad(program_, back, *parameters_, &state, &grads));
      DPIPE_RETURN_IF_ERROR(InputGrad(program_, front, *parameters_, &state, &grads));
      DPIPE_RETURN_IF_ERROR(WeightGrad(program_, front, parameters_, &state));
      DPIPE_RETURN_IF_ERROR(WeightGrad(program_, back, parameters_, &state));
    }
    if (!state.finished() || state.bytes() != 0) {
      return absl::InternalError(absl::StrCat(state.bytes(), " bytes kept after all passes"));
    }
    return absl::OkStatus();
  }

  const Program& program_;
  ParameterSet* const parameters_;
  const ValueMap& inputs_;
  const ValueMap& output_grads_;
  const RunOptions& options_;
};

absl::Status Compare(const Program& program, const ParameterSet& parameters, const Outcome& whole,
                     const Outcome& split, const std::string& how) {
  for (const auto& [id, y] : whole.outputs) {
    const auto it = split.outputs.find(id);
    if (it == split.outputs.end() || !SameBits(y, it->second)) {
      return absl::InternalError(
          absl::StrCat(how, ": output '", program.value(id).name, "' differs"));
    }
  }
  for (size_t i = 0; i < whole.grads.size(); ++i) {
    if (SameBits(whole.grads[i], split.grads[i])) continue;
    const ParameterId id = parameters.trainable_ids()[i];
    return absl::InternalError(
        absl::StrCat(how, ": the gradient of '", program.parameter(id).name, "' differs"));
  }
  return absl::OkStatus();
}

}  // namespace

ValueMap RandomInputs(const Program& program, const std::shared_ptr<Device>& device, int64_t batch,
                      DType compute_dtype, int int_bound, uint64_t seed) {
  ValueMap inputs;
  for (ValueId id : program.inputs()) {
    RandomStream random(seed, id.value(), 0, RandomPurpose::kTest);
    inputs[id] = RandomTensor(device, program.BatchShape(id, batch),
                              ResolveElement(program.value(id).type.element, compute_dtype),
                              int_bound, &random);
  }
  return inputs;
}

absl::Status CheckGradients(const Program& program, ParameterSet* parameters,
                            const ValueMap& inputs, const GradientCheckOptions& options) {
  const LayerRange all = program.all_layers();
  const int64_t batch = inputs.begin()->second.dim(0);
  const ValueMap weights =
      RandomOutputGrads(program, parameters->device(), batch, DType::kF32, options.seed);
  RangeState state;
  ValueMap values = inputs, grads = weights;
  parameters->ZeroGrads();
  DPIPE_RETURN_IF_ERROR(Forward(program, all, *parameters, RunOptions(), &values, &state));
  DPIPE_RETURN_IF_ERROR(Backward(program, all, parameters, &state, &grads));

  struct Check {
    ParameterId id;
    double difference, gradient;
  };
  std::vector<Check> checks;
  double sum_of_squares = 0;
  for (ParameterId id : parameters->trainable_ids()) {
    const Tensor& grad = *parameters->grad(id);
    const double h = options.step / std::sqrt(static_cast<double>(grad.num_elements()));
    for (int k = 0; k < options.directions; ++k) {
      RandomStream random(options.seed, id.value(), k, RandomPurpose::kTest);
      std::vector<float> direction(grad.num_elements());
      double along = 0;
      for (size_t i = 0; i < direction.size(); ++i) {
        direction[i] = random.NextBelow(2) == 0 ? -1.0f : 1.0f;
        along += double{direction[i]} * double{grad.data<float>()[i]};
      }
      DPIPE_ASSIGN_OR_RETURN(const double wide,
                             Difference(program, parameters, id, direction, h, inputs, weights));
      DPIPE_ASSIGN_OR_RETURN(const double narrow, Difference(program, parameters, id, direction,
                                                             h / 2, inputs, weights));
      const double difference = (4 * narrow - wide) / 3;  // cancels the error in h^2
      checks.push_back({id, difference, along});
      sum_of_squares += difference * difference + along * along;
    }
  }
  const double rms = std::sqrt(sum_of_squares / (2 * std::max<size_t>(checks.size(), 1)));
  for (const Check& check : checks) {
    const double size = std::max({rms, std::fabs(check.difference), std::fabs(check.gradient)});
    if (std::fabs(check.difference - check.gradient) <= options.tolerance * size) continue;
    return absl::InternalError(absl::StrCat("'", program.parameter(check.id).name,
                                            "': finite difference ", check.difference,
                                            ", gradient ", check.gradient, ", typical ", rms));
  }
  return absl::OkStatus();
}

absl::Status CheckSplits(const Program& program, ParameterSet* parameters, const ValueMap& inputs,
                         const RunOptions& options, uint64_t seed, int stride) {
  const ValueMap output_grads = RandomOutputGrads(
      program, parameters->device(), inputs.begin()->second.dim(0), options.compute_dtype, seed);
  const SplitRun run(program, parameters, inputs, output_grads, options);
  DPIPE_ASSIGN_OR_RETURN(const Outcome whole, run.Run(Mode::kSplitBackward, 0));
  for (int cut = 0; cut <= program.num_layers(); cut += stride) {
    for (Mode mode : {Mode::kTwoParts, Mode::kSplitBackward, Mode::kSplitWeightGrads}) {
      const std::string how =
          absl::StrCat(program.name(), " cut at ", cut, ", mode ", static_cast<int>(mode));
      DPIPE_ASSIGN_OR_RETURN(const Outcome split, run.Run(mode, cut));
      DPIPE_RETURN_IF_ERROR(Compare(program, *parameters, whole, split, how));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGradientsAndSplits(const Program& program, int int_bound) {
  const auto device = Device::Cpu();
  device->allocator().set_poison(true);
  ParameterSet parameters(program, program.all_layers(), device);
  parameters.InitRandom(1);
  const ValueMap inputs = RandomInputs(program, device, 3, DType::kF32, int_bound, 2);
  DPIPE_RETURN_IF_ERROR(CheckGradients(program, &parameters, inputs, {}));
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    DPIPE_RETURN_IF_ERROR(CheckSplits(program, &parameters, inputs, RunOptions{dtype}, 3));
  }
  return absl::OkStatus();
}

}  // namespace dpipe::nn
