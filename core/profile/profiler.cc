#include "core/profile/profiler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "core/nn/copy_parameters.h"
#include "core/nn/execution.h"
#include "core/profile/describe.h"
#include "core/profile/layer_timer.h"
#include "core/profile/pass_timer.h"
#include "core/profile/typical_times.h"

namespace dpipe {
namespace {

class Profiler {
 public:
  Profiler(const nn::Model& model, const std::vector<DeviceWorker*>& workers,
           const ProfilerInputs& inputs, const ProfilerOptions& options,
           const std::function<void(double)>& on_progress)
      : model_(model),
        workers_(workers),
        inputs_(inputs),
        options_(options),
        on_progress_(on_progress) {}

  absl::StatusOr<ModelProfile> Run() {
    ModelProfile profile;
    profile.set_model(model_.name());
    profile.set_device(options_.device_name);
    profile.set_dtype(std::string(DTypeName(options_.compute_dtype)));
    profile.set_frozen_quantum(options_.frozen_quantum);
    total_ = model_.num_components() + static_cast<int>(options_.local_batches.size());
    for (int i = 0; i < model_.num_components(); ++i) {
      *profile.add_components() = DescribeComponent(model_.component(i), options_.compute_dtype);
      DPIPE_RETURN_IF_ERROR(model_.component(i).is_backbone
                                ? Backbone(i, &profile)
                                : Frozen(i, profile.mutable_components(i)));
    }
    DPIPE_RETURN_IF_ERROR(LaunchOverhead(&profile));
    DPIPE_RETURN_IF_ERROR(CachedLoad(&profile));
    const bool by_graphs = options_.graphs && workers_[0]->device()->graphs() != nullptr;
    profile.set_provenance(absl::StrCat("measured on ", workers_.size(), " device(s) at once, in ",
                                        options_.passes, " passes",
                                        by_graphs ? ", launched as recorded graphs" : ""));
    return profile;
  }

 private:
  void Progress() {
    ++done_;
    if (on_progress_) on_progress_(static_cast<double>(done_) / total_);
  }

  // Runs `measure` on every worker at once.
  template <typename Measure>
  absl::StatusOr<std::vector<ComponentSamples>> OnAllWorkers(const Measure& measure) {
    std::vector<ComponentSamples> samples(workers_.size());
    DPIPE_RETURN_IF_ERROR(FirstError(RunOnAll(workers_, [&](int i) -> absl::Status {
      DPIPE_ASSIGN_OR_RETURN(samples[i], measure(workers_[i]->device()));
      return absl::OkStatus();
    })));
    return samples;
  }

  absl::Status Frozen(int index, ComponentProfile* profile) {
    const nn::Component& component = model_.component(index);
    const int batch = options_.frozen_quantum;
    DPIPE_ASSIGN_OR_RETURN(
        const auto samples, OnAllWorkers([&](const std::shared_ptr<Device>& device) {
          return TimeFrozenOn(device, component, *inputs_.frozen_parameters[index]);
        }));
    const std::vector<LayerTimes> times = TypicalLayerTimes(samples);
    for (int l = 0; l < profile->layers_size(); ++l) {
      LayerTiming* timing = profile->mutable_layers(l)->add_timings();
      timing->set_local_batch(batch);
      timing->set_forward_ns(times[l].forward_ns);
    }
    profile->set_load_ns_per_sample(TypicalLoadTime(samples) / batch);
    Progress();
    return absl::OkStatus();
  }

  absl::StatusOr<ComponentSamples> TimeFrozenOn(const std::shared_ptr<Device>& device,
                                                const nn::Component& component,
                                                const nn::ParameterSet& parameters) const {
    const int batch = options_.frozen_quantum;
    if (device->has_host_memory()) {
      return TimeFrozen(component, parameters, batch, device, inputs_, options_);
    }
    const auto there = nn::CopyParameters(parameters, device);
    return TimeFrozen(component, *there, batch, device, inputs_, options_);
  }

  // With the given values, and gradients of its own.
  absl::StatusOr<std::unique_ptr<nn::ParameterSet>> BackboneOn(
      const std::shared_ptr<Device>& device, const nn::Program& program) const {
    const std::map<std::string, Tensor>& values = *inputs_.backbone_parameters;
    if (device->has_host_memory()) {
      return nn::ParameterSet::Sharing(program, program.all_layers(), device, values);
    }
    auto own = std::make_unique<nn::ParameterSet>(program, program.all_layers(), device);
    DPIPE_RETURN_IF_ERROR(own->Load(values));
    return own;
  }

  absl::Status Backbone(int index, ModelProfile* profile) {
    const nn::Component& component = model_.component(index);
    ComponentProfile* result = profile->mutable_components(index);
    std::vector<std::unique_ptr<nn::ParameterSet>> parameters(workers_.size());
    DPIPE_RETURN_IF_ERROR(FirstError(RunOnAll(workers_, [&](int i) -> absl::Status {
      DPIPE_ASSIGN_OR_RETURN(parameters[i], BackboneOn(workers_[i]->device(), component.program));
      return absl::OkStatus();
    })));
    for (int batch : options_.local_batches) {
      std::vector<ComponentSamples> samples(workers_.size());
      DPIPE_RETURN_IF_ERROR(FirstError(RunOnAll(workers_, [&](int i) -> absl::Status {
        DPIPE_ASSIGN_OR_RETURN(
            samples[i], TimeBackbone(component, parameters[i].get(), batch, inputs_, options_));
        return absl::OkStatus();
      })));
      AddTimings(samples, batch, result);
      Progress();
    }
    parameters.clear();
    DPIPE_RETURN_IF_ERROR(OptimizerTimes(component.program, result));
    Progress();
    return absl::OkStatus();
  }

  static void AddTimings(const std::vector<ComponentSamples>& samples, int batch,
                         ComponentProfile* profile) {
    const std::vector<LayerTimes> times = TypicalLayerTimes(samples);
    for (int l = 0; l < profile->layers_size(); ++l) {
      LayerProfile* layer = profile->mutable_layers(l);
      LayerTiming* timing = layer->add_timings();
      timing->set_local_batch(batch);
      timing->set_forward_ns(times[l].forward_ns);
      timing->set_input_grad_ns(times[l].input_grad_ns);
      timing->set_weight_grad_ns(times[l].weight_grad_ns);
      layer->set_saved_bytes_per_sample(samples[0].layers[l].saved_bytes / batch);
    }
  }

  // The first layers, all of them or as many as have some 64 million parameters: an optimizer
  // step's time is as their number, far above what a cache holds.
  static LayerRange LayersToOptimize(const ComponentProfile& profile) {
    constexpr int64_t kEnoughBytes = 256 << 20;
    int end = 0;
    while (end < profile.layers_size() && TrainableBytes(profile, {0, end}) < kEnoughBytes) ++end;
    return {0, end};
  }

  static int64_t TrainableBytes(const ComponentProfile& profile, LayerRange layers) {
    int64_t sum = 0;
    for (int l = layers.begin; l < layers.end; ++l) {
      sum += profile.layers(l).trainable_parameter_bytes();
    }
    return sum;
  }

  // One optimizer step, shared out over the layers by their parameters.
  absl::Status OptimizerTimes(const nn::Program& program, ComponentProfile* profile) {
    const LayerRange layers = LayersToOptimize(*profile);
    DPIPE_ASSIGN_OR_RETURN(
        const auto samples,
        OnAllWorkers(
            [&](const std::shared_ptr<Device>& device) -> absl::StatusOr<ComponentSamples> {
              nn::ParameterSet own(program, layers, device);
              DPIPE_RETURN_IF_ERROR(own.Load(*inputs_.backbone_parameters));
              const auto step = inputs_.make_optimizer(own);
              ComponentSamples result;
              PassTimer timer(device.get());
              for (int pass = -options_.warmup_passes; pass < options_.passes; ++pass) {
                timer.Begin();
                DPIPE_RETURN_IF_ERROR(step(&own));
                timer.End(&result.load_ns);
                DPIPE_RETURN_IF_ERROR(timer.Finish(/*keep=*/pass >= 0));
              }
              return result;
            }));
    const double step_ns = TypicalLoadTime(samples);
    const double total = TrainableBytes(*profile, layers);
    for (LayerProfile& layer : *profile->mutable_layers()) {
      layer.set_optimizer_step_ns(
          static_cast<Nanos>(step_ns * layer.trainable_parameter_bytes() / std::max(1.0, total)));
    }
    return absl::OkStatus();
  }

  // An instruction that computes nothing: what is left is the interpreter's own cost.
  absl::Status LaunchOverhead(ModelProfile* profile) {
    const nn::Program& program = model_.backbone().program;
    DPIPE_ASSIGN_OR_RETURN(
        const auto samples,
        OnAllWorkers(
            [&](const std::shared_ptr<Device>& device) -> absl::StatusOr<ComponentSamples> {
              const nn::ParameterSet none(program, {0, 0}, device);
              ComponentSamples result;
              for (int pass = 0; pass < 100; ++pass) {
                nn::ValueMap values;
                const Nanos start = MonotonicNow();
                DPIPE_RETURN_IF_ERROR(
                    nn::Forward(program, {0, 0}, none, nn::RunOptions(), &values, nullptr));
                result.load_ns.push_back(MonotonicNow() - start);
              }
              return result;
            }));
    const Nanos overhead = TypicalLoadTime(samples);
    profile->set_launch_overhead_ns(std::max<Nanos>(overhead, kNanosPerMicro));
    return absl::OkStatus();
  }

  // Reading what frozen components would have computed; 0 where the caller has no cache.
  absl::Status CachedLoad(ModelProfile* profile) {
    DPIPE_ASSIGN_OR_RETURN(
        const auto samples,
        OnAllWorkers(
            [&](const std::shared_ptr<Device>& device) -> absl::StatusOr<ComponentSamples> {
              ComponentSamples result;
              for (int pass = -options_.warmup_passes; pass < options_.passes; ++pass) {
                const Nanos start = MonotonicNow();
                for (int index : model_.backbones()) {
                  const nn::Component& backbone = model_.component(index);
                  for (const auto& [input, source] : backbone.sources) {
                    const absl::Status loaded = inputs_.load(backbone, input, 1, device).status();
                    if (absl::IsUnimplemented(loaded)) return result;
                    DPIPE_RETURN_IF_ERROR(loaded);
                  }
                }
                if (pass >= 0) result.load_ns.push_back(MonotonicNow() - start);
              }
              return result;
            }));
    profile->set_cached_load_ns_per_sample(TypicalLoadTime(samples));
    return absl::OkStatus();
  }

  const nn::Model& model_;
  const std::vector<DeviceWorker*>& workers_;
  const ProfilerInputs& inputs_;
  const ProfilerOptions& options_;
  const std::function<void(double)>& on_progress_;
  int done_ = 0;
  int total_ = 1;
};

}  // namespace

absl::StatusOr<ModelProfile> ProfileModel(const nn::Model& model,
                                          const std::vector<DeviceWorker*>& workers,
                                          const ProfilerInputs& inputs,
                                          const ProfilerOptions& options,
                                          const std::function<void(double)>& on_progress) {
  DPIPE_CHECK(!workers.empty());
  if (options.local_batches.empty() || options.frozen_quantum < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "profiling needs at least one local batch (there are ", options.local_batches.size(),
        ") and a frozen quantum of at least 1 (it is ", options.frozen_quantum, ")"));
  }
  return Profiler(model, workers, inputs, options, on_progress).Run();
}

}  // namespace dpipe
