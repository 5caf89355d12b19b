#include "core/train/held_out_loss.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/tensor/pass_workers.h"

namespace dpipe {
namespace {

constexpr char kTimesteps[] = "timesteps";

// Returns, by component, true if it, or one that feeds it, reads the timesteps.
std::vector<bool> DependsOnTimesteps(const nn::Model& model) {
  std::vector<bool> timed;
  for (int i = 0; i < model.num_components(); ++i) {
    const nn::Component& component = model.component(i);
    bool depends = false;
    for (ValueId id : component.program.inputs()) {
      const auto source = component.sources.find(component.program.value(id).name);
      depends |= source == component.sources.end()
                     ? component.program.value(id).name == kTimesteps
                     : timed[model.FindComponent(source->second.component)];
    }
    timed.push_back(depends);
  }
  return timed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HeldOutLoss>> HeldOutLoss::Create(
    const HeldOutLossOptions& options) {
  if (options.num_samples < 1 || options.batch < 1 || options.inputs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "evaluation of ", options.num_samples, " samples in batches of ", options.batch, " at ",
        options.inputs.size(), " quantiles: each must be at least 1"));
  }
  return std::unique_ptr<HeldOutLoss>(new HeldOutLoss(options));
}

HeldOutLoss::HeldOutLoss(const HeldOutLossOptions& options)
    : options_(options), timed_(DependsOnTimesteps(*options.model)) {}

absl::StatusOr<HeldOutLosses> HeldOutLoss::Evaluate(const std::map<std::string, Tensor>& parameters,
                                                    const std::vector<DeviceWorker*>& workers,
                                                    const std::function<void(double)>& on_progress,
                                                    const std::function<bool()>& should_stop) {
  DPIPE_ASSIGN_OR_RETURN(const Backbones backbones, LoadBackbones(parameters));
  Passes passes;
  for (size_t i = 0, next_backbone = 0; i < timed_.size(); ++i) {
    const bool is_backbone = options_.model->component(i).is_backbone;
    passes.push_back(std::make_unique<nn::Inference>(is_backbone ? backbones[next_backbone++].get()
                                                                 : options_.frozen_parameters[i]));
  }
  DPIPE_ASSIGN_OR_RETURN(const PassWorkers chosen, PassWorkers::Choose(workers, DeviceBytes()));
  const int num_quantiles = static_cast<int>(options_.inputs.size());
  const int num_batches = (options_.num_samples + options_.batch - 1) / options_.batch;
  std::vector<std::vector<std::vector<double>>> losses(num_batches);  // by batch, quantile, sample
  std::atomic<int> next{0};
  const auto statuses = RunOnAll(chosen.workers(), [&](int worker) -> absl::Status {
    for (int batch = next++; batch < num_batches; batch = next++) {
      losses[batch].resize(num_quantiles);
      DPIPE_RETURN_IF_ERROR(EvaluateBatch(batch, passes, chosen.workers()[worker]->device(),
                                          should_stop, &losses[batch]));
      if (worker == 0 && on_progress) on_progress(static_cast<double>(batch + 1) / num_batches);
    }
    return absl::OkStatus();
  });
  DPIPE_RETURN_IF_ERROR(FirstError(statuses));
  HeldOutLosses result;
  for (int quantile = 0; quantile < num_quantiles; ++quantile) {
    double sum = 0;
    for (const auto& batch : losses) {
      for (double loss : batch[quantile]) sum += loss;
    }
    result.by_quantile.push_back(sum / options_.num_samples);
    result.mean += result.by_quantile.back() / num_quantiles;
  }
  return result;
}

absl::StatusOr<HeldOutLoss::Backbones> HeldOutLoss::LoadBackbones(
    const std::map<std::string, Tensor>& parameters) const {
  Backbones backbones;
  for (int index : options_.model->backbones()) {
    const nn::Program& program = options_.model->component(index).program;
    // On demand: other sets allocate gradients.
    backbones.push_back(nn::ParameterSet::OnDemand(program, program.all_layers(), Device::Cpu()));
    backbones.back()->AllocateMasters(program.all_layers());
    DPIPE_RETURN_IF_ERROR(backbones.back()->Load(parameters));
  }
  return backbones;
}

int64_t HeldOutLoss::DeviceBytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < timed_.size(); ++i) {
    const nn::Program& program = options_.model->component(i).program;
    bytes +=
        nn::InferenceBytes(program, program.all_layers(), options_.batch, options_.compute_dtype);
  }
  return bytes;
}

absl::Status HeldOutLoss::EvaluateBatch(int batch, const Passes& passes,
                                        const std::shared_ptr<Device>& device,
                                        const std::function<bool()>& should_stop,
                                        std::vector<std::vector<double>>* losses) {
  const int first = batch * options_.batch;
  const SampleRange samples{first, std::min(first + options_.batch, options_.num_samples)};
  Outputs frozen;
  {
    absl::MutexLock lock(&mutex_);
    const auto cached = cache_.find(batch);
    if (cached != cache_.end()) frozen = cached->second;
  }
  if (frozen.empty()) {
    DPIPE_RETURN_IF_ERROR(
        RunFrozen(passes, samples, /*quantile=*/0, /*timed=*/false, device, &frozen));
    int64_t bytes = 0;
    for (const auto& [name, tensor] : frozen) bytes += tensor.size_bytes();
    absl::MutexLock lock(&mutex_);
    if (cached_bytes_ + bytes <= options_.cache_bytes) {
      cache_[batch] = frozen;
      cached_bytes_ += bytes;
    }
  }
  for (size_t quantile = 0; quantile < losses->size(); ++quantile) {
    if (should_stop && should_stop()) return absl::CancelledError("the evaluation was stopped");
    Outputs outputs = frozen;
    DPIPE_RETURN_IF_ERROR(RunFrozen(passes, samples, quantile, /*timed=*/true, device, &outputs));
    std::vector<double>& sums = (*losses)[quantile];
    sums.assign(samples.size(), 0.0);
    for (int index : options_.model->backbones()) {
      DPIPE_ASSIGN_OR_RETURN(const std::vector<float> own,
                             RunBackbone(options_.model->component(index), passes[index].get(),
                                         samples, quantile, device, outputs));
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
    }
  }
  return absl::OkStatus();
}

absl::Status HeldOutLoss::RunFrozen(const Passes& passes, SampleRange samples, int quantile,
                                    bool timed, const std::shared_ptr<Device>& device,
                                    Outputs* outputs) const {
  const nn::Model& model = *options_.model;
  nn::RunOptions run;
  run.compute_dtype = options_.compute_dtype;
  for (int i = 0; i < model.num_components(); ++i) {
    const nn::Component& component = model.component(i);
    if (component.is_backbone || timed_[i] != timed) continue;
    DPIPE_ASSIGN_OR_RETURN(nn::ValueMap values,
                           InputsOf(component, samples, quantile, HostDeviceFor(device), *outputs));
    DPIPE_RETURN_IF_ERROR(passes[i]->Forward(component.program, component.program.all_layers(),
                                             device, run, &values));
    for (int reader = i + 1; reader < model.num_components(); ++reader) {
      for (const auto& [input, source] : model.component(reader).sources) {
        if (source.component != component.name) continue;
        (*outputs)[{component.name, source.output}] =
            values[component.program.OutputNamed(source.output)];
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> HeldOutLoss::RunBackbone(const nn::Component& backbone,
                                                            nn::Inference* passes,
                                                            SampleRange samples, int quantile,
                                                            const std::shared_ptr<Device>& device,
                                                            const Outputs& outputs) const {
  const nn::Program& program = backbone.program;
  nn::RunOptions run;
  run.compute_dtype = options_.compute_dtype;
  DPIPE_ASSIGN_OR_RETURN(const nn::ValueMap inputs,
                         InputsOf(backbone, samples, quantile, HostDeviceFor(device), outputs));
  nn::ValueMap values = inputs;
  DPIPE_RETURN_IF_ERROR(passes->Forward(program, program.all_layers(), device, run, &values));
  if (!backbone.self_conditioning.input.empty()) {  // again, with its own estimate
    const Tensor estimate = values[program.OutputNamed(backbone.self_conditioning.output)];
    values = inputs;
    values[program.InputNamed(backbone.self_conditioning.input)] = estimate;
    DPIPE_RETURN_IF_ERROR(passes->Forward(program, program.all_layers(), device, run, &values));
  }
  const Tensor loss = values[backbone.loss()];
  return std::vector<float>(loss.span<float>().begin(), loss.span<float>().end());
}

absl::StatusOr<nn::ValueMap> HeldOutLoss::InputsOf(const nn::Component& component,
                                                   SampleRange samples, int quantile,
                                                   const std::shared_ptr<Device>& device,
                                                   const Outputs& outputs) const {
  const nn::Program& program = component.program;
  nn::ValueMap values;
  for (ValueId id : program.inputs()) {
    const std::string& name = program.value(id).name;
    const auto source = component.sources.find(name);
    if (source != component.sources.end()) {
      values[id] = outputs.at({source->second.component, source->second.output}).ViewOn(device);
    } else if (name == component.self_conditioning.input && !name.empty()) {
      values[id] =
          Tensor::Zeros(device, program.BatchShape(id, samples.size()),
                        nn::ResolveElement(program.value(id).type.element, options_.compute_dtype));
    } else {
      DPIPE_ASSIGN_OR_RETURN(values[id], options_.inputs[quantile]->Load(
                                             component.name, name, /*step=*/0, samples, device));
    }
  }
  return values;
}

}  // namespace dpipe
