#include "core/train/optimizer/adamw_optimizer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ops/optimizer/optimizer.h"

namespace dpipe {

using ops::BlockQuantized;

AdamWMoments::AdamWMoments(MomentsFormat format, int block_size, const Tensor& parameter)
    : format_(format) {
  if (format == MomentsFormat::kFp32) {
    fp32_.m = Tensor::Zeros(parameter.device(), parameter.shape(), DType::kF32);
    fp32_.v = Tensor::Zeros(parameter.device(), parameter.shape(), DType::kF32);
    return;
  }
  shape_ = parameter.shape();
  const auto make = [&](BlockQuantized::Sign sign) {
    return std::make_unique<BlockQuantized>(parameter.device(), parameter.num_elements(),
                                            block_size, sign);
  };
  m_ = make(BlockQuantized::Sign::kSigned);
  root_v_ = make(BlockQuantized::Sign::kUnsigned);
}

AdamWMoments::Pair AdamWMoments::Load() const {
  if (format_ == MomentsFormat::kFp32) return fp32_;
  return {m_->Load(shape_), root_v_->LoadSquares(shape_)};
}

std::vector<std::pair<std::string, Tensor>> AdamWMoments::Export() {
  if (format_ == MomentsFormat::kFp32) return {{"m", fp32_.m}, {"v", fp32_.v}};
  exported_ = Pair{m_->LoadToHost(shape_), root_v_->LoadToHost(shape_)};
  return {{"m", exported_->m}, {"root_v", exported_->v}};
}

void AdamWMoments::Import() {
  if (format_ == MomentsFormat::kFp32 || !exported_.has_value()) return;
  m_->Store(exported_->m);
  root_v_->Store(exported_->v);
  DropExports();
}

int64_t AdamWMoments::size_bytes() const {
  if (format_ == MomentsFormat::kFp32) return 2 * fp32_.m.size_bytes();
  return m_->size_bytes() + root_v_->size_bytes();
}

namespace {

class AdamWOptimizer : public StepOptimizer {
 public:
  AdamWOptimizer(const AdamWOptions& options, const nn::ParameterSet& parameters)
      : options_(options), parameters_(parameters) {
    for (nn::ParameterId id : parameters.trainable_ids()) {
      const Tensor& master = parameters.weight(id).master();
      ParameterState state{AdamWMoments(options.moments, options.moments_block, master), Tensor()};
      if (options.ema_decay > 0) state.average = master.Clone();
      states_.push_back(std::move(state));
    }
  }

  absl::Status Step(int64_t step, bool ends_step, double global_norm,
                    nn::ParameterSet* parameters) override {
    if (!(global_norm < 0) && !std::isfinite(global_norm)) {  // NaN too
      return absl::FailedPreconditionError(
          absl::StrCat("the gradients' global norm is ", global_norm,
                       ": the loss has diverged; lower the learning rate"));
    }
    const float scale =
        global_norm < 0 ? 1.0f : ops::ClipScale(global_norm, options_.max_grad_norm);
    ops::AdamWParams params = options_.adamw;
    params.learning_rate = options_.learning_rate.At(step);
    const double ema_decay = ends_step ? EmaDecayAt(options_, step) : 1;
    ++updates_;
    DPIPE_RETURN_IF_ERROR(UpdateParameters(params, scale, parameters));
    std::vector<ops::AxpbyPair> averages;
    for (size_t i = 0; i < states_.size(); ++i) {
      ops::Weight* weight = parameters->mutable_weight(parameters->trainable_ids()[i]);
      weight->MarkUpdated();
      if (states_[i].average.defined()) averages.push_back({weight->master(), states_[i].average});
    }
    if (ema_decay == 1) return absl::OkStatus();
    const auto decay = static_cast<float>(ema_decay);
    return ops::Axpby(static_cast<float>(1 - double{decay}), decay, averages);
  }

  absl::Status Predict(int64_t step, int updates, nn::ParameterSet* predicted) override {
    if (updates_ == 0) return absl::OkStatus();  // there are no moments yet
    ops::AdamWParams params = options_.adamw;
    params.learning_rate = options_.learning_rate.At(step);
    std::vector<ops::AdamWPrediction> predictions;
    for (size_t i = 0; i < states_.size(); ++i) {
      ops::Weight* weight = predicted->mutable_weight(predicted->trainable_ids()[i]);
      const AdamWMoments::Pair moments = states_[i].moments.Load();
      predictions.push_back({weight->master(), moments.m, moments.v});
      weight->MarkUpdated();
    }
    return ops::AdamWPredict(params, updates_, updates, predictions);
  }

  std::vector<StateTensor> State(absl::string_view kind) override {
    std::vector<StateTensor> tensors;
    for (size_t i = 0; i < states_.size(); ++i) {
      const nn::ParameterId id = parameters_.trainable_ids()[i];
      const auto add = [&](const std::string& own, const Tensor& tensor) {
        if (!tensor.defined() || (!kind.empty() && own != kind)) return;
        tensors.push_back(ElementwiseState(own, parameters_.program().parameter(id).name,
                                           parameters_.part(id), tensor));
      };
      // Not for an average alone: 8-bit moments are exported as fp32 copies.
      if (kind != kAverageKind) {
        for (const auto& [name, tensor] : states_[i].moments.Export()) add(name, tensor);
      }
      add(kAverageKind, states_[i].average);
    }
    return tensors;
  }

  int64_t num_updates() const override { return updates_; }

  absl::Status StateRestored(int64_t num_updates) override {
    updates_ = num_updates;
    for (ParameterState& state : states_) state.moments.Import();
    return absl::OkStatus();
  }

 private:
  struct ParameterState {
    AdamWMoments moments;
    Tensor average;
  };

  absl::Status UpdateParameters(const ops::AdamWParams& params, float scale,
                                nn::ParameterSet* parameters) {
    std::vector<ops::AdamWUpdate> updates;
    std::vector<ops::AdamWInt8Update> int8_updates;
    for (size_t i = 0; i < states_.size(); ++i) {
      const nn::ParameterId id = parameters->trainable_ids()[i];
      const Tensor &grad = *parameters->grad(id), &master = parameters->weight(id).master();
      ops::AdamWParams own = params;
      if (!parameters->program().parameter(id).decay) own.weight_decay = 0;
      AdamWMoments& moments = states_[i].moments;
      moments.DropExports();
      if (options_.moments == MomentsFormat::kFp32) {
        const AdamWMoments::Pair pair = moments.Load();
        updates.push_back({own, grad, master, pair.m, pair.v});
      } else {
        int8_updates.push_back({own, grad, master, moments.int8_m(), moments.int8_root_v()});
      }
    }
    DPIPE_RETURN_IF_ERROR(ops::AdamWSteps(updates, updates_, scale));
    return ops::AdamWInt8Steps(int8_updates, updates_, scale);
  }

  const AdamWOptions options_;
  const nn::ParameterSet& parameters_;
  std::vector<ParameterState> states_;  // in the order of trainable_ids()
  int64_t updates_ = 0;                 // for Adam's bias correction, which counts updates from 1
};

}  // namespace

double EmaDecayAt(const AdamWOptions& options, int64_t step) {
  if ((step + 1) % options.ema_every != 0) return 1;
  if (step < options.ema_start) return 0;
  const auto n = static_cast<double>((step - options.ema_start) / options.ema_every);
  return std::min(options.ema_decay, (1 + n) / (10 + n));
}

double OptimizerBytesPerParameter(const AdamWOptions& options) {
  const double average = options.ema_decay > 0 ? sizeof(float) : 0;
  if (options.moments == MomentsFormat::kFp32) return average + 2 * sizeof(float);
  return average + 2 * (1 + sizeof(float) / static_cast<double>(options.moments_block));
}

StepOptimizerFactory AdamWFactory(const AdamWOptions& options) {
  return [options](const nn::ParameterSet& parameters) -> std::unique_ptr<StepOptimizer> {
    return std::make_unique<AdamWOptimizer>(options, parameters);
  };
}

}  // namespace dpipe
