#include "core/profile/profiler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/base/phases.h"
#include "core/nn/execution.h"
#include "core/nn/parameters.h"
#include "core/profile/describe.h"
#include "core/profile/layer_timer.h"
#include "core/profile/pass_timer.h"
#include "core/profile/profile_match.h"
#include "core/profile/typical_times.h"

namespace dpipe {
namespace {

// Samples per worker.
using WorkerSamples = std::vector<ComponentSamples>;

void Append(const std::vector<Nanos>& more, std::vector<Nanos>* samples) {
  samples->insert(samples->end(), more.begin(), more.end());
}

void Append(const WorkerSamples& more, WorkerSamples* samples) {
  samples->resize(more.size());
  for (size_t w = 0; w < more.size(); ++w) {
    ComponentSamples& all = (*samples)[w];
    Append(more[w].load_ns, &all.load_ns);
    all.held_bytes = std::max(all.held_bytes, more[w].held_bytes);
    all.peak_bytes = std::max(all.peak_bytes, more[w].peak_bytes);
    all.layers.resize(more[w].layers.size());
    for (size_t l = 0; l < all.layers.size(); ++l) {
      const LayerSamples& layer = more[w].layers[l];
      Append(layer.forward_ns, &all.layers[l].forward_ns);
      Append(layer.input_grad_ns, &all.layers[l].input_grad_ns);
      Append(layer.weight_grad_ns, &all.layers[l].weight_grad_ns);
      all.layers[l].saved_bytes = layer.saved_bytes;
    }
  }
}

// All measurements of one component.
struct ComponentTimes {
  std::map<int, WorkerSamples> passes;  // local batch to samples
  WorkerSamples optimizer_steps;        // as load_ns
  std::string left_out;                 // why larger local batches were not timed; else empty
};

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
    described_ = DescribeModel(model_, options_.compute_dtype, options_.frozen_quantum,
                               options_.device_name);
    times_.resize(model_.num_components());
    const int rounds = std::max(1, options_.passes / options_.passes_a_round);
    for (int round = 0; round < rounds; ++round) {
      round_ = options_;
      round_.passes = options_.passes * (round + 1) / rounds - options_.passes * round / rounds;
      // Two on a GPU: the second pass shows if the host bounds a backbone's passes.
      const int needed = workers_[0]->device()->has_host_memory() ? 1 : 2;
      if (round > 0) round_.warmup_passes = std::min(needed, options_.warmup_passes);
      is_first_round_ = round == 0;
      DPIPE_RETURN_IF_ERROR(TimeAll([&](double done) {
        if (on_progress_) on_progress_((round + done) / rounds);
      }));
      passes_done_ += round_.passes;
      if (round + 1 < rounds) ReportCurrentProfile();
    }
    DPIPE_RETURN_IF_ERROR(LaunchOverhead());
    return CurrentProfile();
  }

 private:
  // Returns the profile measured so far.
  ModelProfile CurrentProfile() const {
    ModelProfile profile = described_;
    for (int i = 0; i < model_.num_components(); ++i) {
      SetTimes(times_[i], model_.component(i).is_backbone, profile.mutable_components(i));
    }
    profile.set_cached_load_ns_per_sample(TypicalLoadTime(cached_loads_));
    const bool by_graphs = options_.graphs && workers_[0]->device()->graphs() != nullptr;
    profile.set_provenance(absl::StrCat("measured on ", workers_.size(), " device(s) at once, in ",
                                        std::max(1, passes_done_), " passes",
                                        by_graphs ? ", launched as recorded graphs" : "",
                                        passes_done_ < options_.passes ? ", unfinished" : ""));
    for (const ComponentTimes& times : times_) {
      if (times.left_out.empty()) continue;
      profile.set_provenance(absl::StrCat(profile.provenance(), "; ", times.left_out));
    }
    return profile;
  }

  void ReportCurrentProfile() const {
    if (!options_.so_far) return;
    for (const ComponentTimes& times : times_) {
      if (times.passes.empty()) return;
    }
    options_.so_far(CurrentProfile());
  }

  // Runs one round.
  absl::Status TimeAll(const std::function<void(double)>& progress) {
    const double parts = static_cast<double>(
        model_.num_components() + model_.backbones().size() * options_.local_batches.size());
    int done = 0;
    for (int i = 0; i < model_.num_components(); ++i) {
      if (!model_.component(i).is_backbone) {
        DPIPE_RETURN_IF_ERROR(Frozen(i));
      } else {
        DPIPE_RETURN_IF_ERROR(OptimizerTimes(i, described_.components(i)));
        DPIPE_RETURN_IF_ERROR(Backbone(i, [&] { progress(++done / parts); }));
      }
      progress(++done / parts);
    }
    return CachedLoad();
  }

  // Runs `measure` on all workers at the same time.
  template <typename Measure>
  absl::Status OnAllWorkers(WorkerSamples* all, const Measure& measure) {
    WorkerSamples samples(workers_.size());
    DPIPE_RETURN_IF_ERROR(FirstError(RunOnAll(workers_, [&](int i) -> absl::Status {
      DPIPE_ASSIGN_OR_RETURN(samples[i], measure(i));
      return absl::OkStatus();
    })));
    Append(samples, all);
    return absl::OkStatus();
  }

  absl::Status Frozen(int index) {
    const Phase phase("profile frozen components");
    return OnAllWorkers(&times_[index].passes[options_.frozen_quantum], [&](int worker) {
      const std::shared_ptr<Device>& device = workers_[worker]->device();
      const nn::Component& component = model_.component(index);
      const auto parameters = StandIn(device, component.program);
      return TimeFrozen(component, *parameters, options_.frozen_quantum, device, inputs_, round_);
    });
  }

  // Returns weights to compute with. More than the largest caches hold: a layer must find its
  // weights in memory, as in training.
  static std::unique_ptr<nn::ParameterSet> StandIn(const std::shared_ptr<Device>& device,
                                                   const nn::Program& program) {
    constexpr int64_t kMaxBytesPerShape = 256 << 20;
    return nn::ParameterSet::StandIn(program, program.all_layers(), device, kMaxBytesPerShape);
  }

  absl::Status Backbone(int index, const std::function<void()>& on_batch) {
    const nn::Component& component = model_.component(index);
    std::vector<std::unique_ptr<nn::ParameterSet>> parameters(workers_.size());
    DPIPE_RETURN_IF_ERROR(FirstError(RunOnAll(workers_, [&](int i) -> absl::Status {
      parameters[i] = StandIn(workers_[i]->device(), component.program);
      return absl::OkStatus();
    })));
    ComponentTimes& times = times_[index];
    for (int batch : options_.local_batches) {
      if (is_first_round_) CheckMemoryFor(component, batch, &times);
      if (is_first_round_ ? times.left_out.empty() : times.passes.count(batch) > 0) {
        const std::string name = absl::StrCat("profile ", batch, " samples per pass");
        const Phase phase(name);
        WorkerSamples* const samples = &times.passes[batch];
        DPIPE_RETURN_IF_ERROR(OnAllWorkers(samples, [&](int worker) {
          return TimeBackbone(component, parameters[worker].get(), batch, inputs_, round_);
        }));
        if (is_first_round_) ReportCurrentProfile();
      }
      on_batch();
    }
    return absl::OkStatus();
  }

  // Sets `left_out` to the reason if this batch, and thus all larger ones, would not fit in memory.
  // Memory beyond the parameters is extrapolated linearly from the last two batches. After a single
  // batch it is taken as proportional to the batch, which is rather an overestimate.
  void CheckMemoryFor(const nn::Component& component, int batch, ComponentTimes* times) const {
    if (!times->left_out.empty() || times->passes.empty()) return;
    const auto last = times->passes.rbegin();
    for (size_t w = 0; w < options_.usable_bytes.size(); ++w) {
      const ComponentSamples& samples = last->second[w];
      const double peak = samples.peak_bytes;
      double bytes_per_sample = (peak - samples.held_bytes) / last->first;
      if (times->passes.size() > 1) {
        const auto before = std::next(last);
        bytes_per_sample = (peak - before->second[w].peak_bytes) / (last->first - before->first);
      }
      const auto needed = static_cast<int64_t>(peak + bytes_per_sample * (batch - last->first));
      if (options_.usable_bytes[w] == 0 || needed <= options_.usable_bytes[w]) continue;
      times->left_out =
          absl::StrCat(LocalBatchesEndText(component.name, batch), ", which would take ",
                       FormatBytes(needed), " of the ", FormatBytes(options_.usable_bytes[w]),
                       " that ", workers_[w]->device()->name(), " has for tensors, since ",
                       last->first, " took ", FormatBytes(samples.peak_bytes));
      return;
    }
  }

  static void SetTimes(const ComponentTimes& times, bool is_backbone, ComponentProfile* profile) {
    for (const auto& [batch, samples] : times.passes) {
      const std::vector<TypicalTimes> typical = TypicalLayerTimes(samples);
      for (int l = 0; l < profile->layers_size(); ++l) {
        LayerProfile* layer = profile->mutable_layers(l);
        LayerTiming* timing = layer->add_timings();
        timing->set_local_batch(batch);
        timing->set_forward_ns(typical[l].forward_ns);
        if (!is_backbone) continue;
        timing->set_input_grad_ns(typical[l].input_grad_ns);
        timing->set_weight_grad_ns(typical[l].weight_grad_ns);
        layer->set_saved_bytes_per_sample(samples[0].layers[l].saved_bytes / batch);
      }
      if (!is_backbone) profile->set_load_ns_per_sample(TypicalLoadTime(samples) / batch);
    }
    if (is_backbone) DistributeOptimizerTime(TypicalLoadTime(times.optimizer_steps), profile);
  }

  // Returns the first layers with about 64 million trainable parameters, or all layers if there are
  // fewer. This is far more than a cache holds, so the time of an optimizer step is proportional to
  // the number. Frozen parameters of these layers take memory too: of adapters, the first layers
  // with 1 GiB of both are enough.
  static LayerRange LayersToOptimize(const ComponentProfile& profile) {
    constexpr int64_t kEnoughBytes = 256 << 20, kMaxBytes = 1 << 30;
    int64_t trainable = 0, all = 0;
    int end = 0;
    while (end < profile.layers_size() && trainable < kEnoughBytes &&
           (all < kMaxBytes || trainable == 0)) {
      const LayerProfile& layer = profile.layers(end++);
      trainable += layer.trainable_parameter_bytes();
      all += layer.parameter_bytes();
    }
    return {0, end};
  }

  static int64_t TrainableBytes(const ComponentProfile& profile, LayerRange layers) {
    int64_t sum = 0;
    for (int l = layers.begin; l < layers.end; ++l) {
      sum += profile.layers(l).trainable_parameter_bytes();
    }
    return sum;
  }

  absl::Status OptimizerTimes(int index, const ComponentProfile& profile) {
    const nn::Program& program = model_.component(index).program;
    const LayerRange layers = LayersToOptimize(profile);
    return OnAllWorkers(&times_[index].optimizer_steps,
                        [&](int worker) -> absl::StatusOr<ComponentSamples> {
                          const std::shared_ptr<Device>& device = workers_[worker]->device();
                          nn::ParameterSet own(program, layers, device);
                          const auto step = inputs_.make_optimizer(own);
                          ComponentSamples result;
                          PassTimer timer(device.get());
                          for (int pass = -round_.warmup_passes; pass < round_.passes; ++pass) {
                            timer.Begin();
                            DPIPE_RETURN_IF_ERROR(step(&own));
                            timer.End(&result.load_ns);
                            DPIPE_RETURN_IF_ERROR(timer.Finish(/*keep=*/pass >= 0));
                          }
                          return result;
                        });
  }

  // Divides the time of one optimizer step among the layers in proportion to their parameters.
  static void DistributeOptimizerTime(double step_ns, ComponentProfile* profile) {
    const double total = TrainableBytes(*profile, LayersToOptimize(*profile));
    for (LayerProfile& layer : *profile->mutable_layers()) {
      layer.set_optimizer_step_ns(
          static_cast<Nanos>(step_ns * layer.trainable_parameter_bytes() / std::max(1.0, total)));
    }
  }

  // Times an instruction that computes nothing: the interpreter's own cost.
  absl::Status LaunchOverhead() {
    const nn::Program& program = model_.backbone().program;
    WorkerSamples samples;
    DPIPE_RETURN_IF_ERROR(
        OnAllWorkers(&samples, [&](int worker) -> absl::StatusOr<ComponentSamples> {
          const nn::ParameterSet none(program, {0, 0}, workers_[worker]->device());
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
    described_.set_launch_overhead_ns(std::max<Nanos>(overhead, kNanosPerMicro));
    return absl::OkStatus();
  }

  // Times reading the outputs of frozen components from a cache; does nothing if there is no cache.
  absl::Status CachedLoad() {
    return OnAllWorkers(&cached_loads_, [&](int worker) -> absl::StatusOr<ComponentSamples> {
      ComponentSamples result;
      for (int pass = -round_.warmup_passes; pass < round_.passes; ++pass) {
        Nanos load_ns = 0;
        for (int index : model_.backbones()) {
          const nn::Component& backbone = model_.component(index);
          for (const auto& [input, source] : backbone.sources) {
            const absl::Status loaded =
                TimedLoad(backbone, input, 1, workers_[worker]->device(), inputs_, &load_ns)
                    .status();
            if (absl::IsUnimplemented(loaded)) return result;
            DPIPE_RETURN_IF_ERROR(loaded);
          }
        }
        if (pass >= 0) result.load_ns.push_back(load_ns);
      }
      return result;
    });
  }

  const nn::Model& model_;
  const std::vector<DeviceWorker*>& workers_;
  const ProfilerInputs& inputs_;
  const ProfilerOptions& options_;
  const std::function<void(double)>& on_progress_;
  ModelProfile described_;  // everything except times
  ProfilerOptions round_;   // options of the current round
  bool is_first_round_ = true;
  int passes_done_ = 0;                // number in finished rounds
  std::vector<ComponentTimes> times_;  // per component
  WorkerSamples cached_loads_;         // as load_ns
};

}  // namespace

absl::StatusOr<ModelProfile> ProfileModel(const nn::Model& model,
                                          const std::vector<DeviceWorker*>& workers,
                                          const ProfilerInputs& inputs,
                                          const ProfilerOptions& options,
                                          const std::function<void(double)>& on_progress) {
  DPIPE_CHECK(!workers.empty());
  if (options.local_batches.empty() || options.frozen_quantum < 1 || options.passes < 1 ||
      options.passes_a_round < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("profiling needs at least one local batch (there are ",
                     options.local_batches.size(), "), a frozen quantum of at least 1 (it is ",
                     options.frozen_quantum, ") and at least one pass (", options.passes,
                     " are requested, ", options.passes_a_round, " per round)"));
  }
  return Profiler(model, workers, inputs, options, on_progress).Run();
}

}  // namespace dpipe
