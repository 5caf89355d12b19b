#include "core/profile/layer_timer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/nn/execution.h"
#include "core/profile/pass_timer.h"

namespace dpipe {

void LayerRunner::Keep(const nn::ValueMap& values) {
  if (graphs_ != nullptr && pass_ == record_pass()) kept_.push_back(values);
}

absl::Status LayerRunner::Run(const std::function<absl::Status()>& work) {
  if (graphs_ == nullptr || pass_ < measure_pass()) return work();
  if (pass_ == measure_pass()) {
    absl::Status status;
    const int64_t bytes = graphs_->MeasureMemory([&] { status = work(); });
    works_.push_back({bytes, nullptr});
    return status;
  }
  Work& own = works_.at(next_++);
  if (pass_ == record_pass()) {
    absl::StatusOr<std::unique_ptr<DeviceGraph>> graph = graphs_->Record(own.memory_bytes, work);
    refusal_ = graph.status();
    if (!graph.ok()) return graph.status();
    own.graph = *std::move(graph);
  } else {
    own.graph->Launch();
  }
  return absl::OkStatus();
}

namespace {

absl::Status Named(const absl::Status& status, const nn::Component& component, int layer) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("profiling ", component.name, ", layer ", layer, " (",
                                   component.program.layer(layer).name, "): ", status.message()));
}

bool IsLoaded(const nn::Component& component, const std::string& input) {
  return component.sources.count(input) == 0 && input != component.self_conditioning.input;
}

// Creates the program's external inputs: loaded or drawn ones come from the caller, the others are
// zeros.
absl::StatusOr<nn::ValueMap> MakeInputs(const nn::Component& component, int batch,
                                        const std::shared_ptr<Device>& device,
                                        const ProfilerInputs& inputs,
                                        const ProfilerOptions& options, Nanos* load_ns) {
  nn::ValueMap values;
  for (ValueId id : component.program.inputs()) {
    const nn::ValueInfo& info = component.program.value(id);
    if (!IsLoaded(component, info.name)) {
      values[id] = Tensor::Zeros(device, component.program.BatchShape(id, batch),
                                 nn::ResolveElement(info.type.element, options.compute_dtype));
    } else {
      DPIPE_ASSIGN_OR_RETURN(values[id],
                             TimedLoad(component, info.name, batch, device, inputs, load_ns));
    }
  }
  return values;
}

// Loads the inputs that the layer's execution has to load itself. Drawing noise is part of the
// layer that reads it, unless it is done ahead.
absl::Status DrawInputsOf(const nn::Component& component, int layer, int batch,
                          const std::shared_ptr<Device>& device, const ProfilerInputs& inputs) {
  if (!device->has_host_memory()) return absl::OkStatus();
  for (ValueId id : component.program.InputsReadBy({layer, layer + 1})) {
    const std::string& name = component.program.value(id).name;
    if (!IsLoaded(component, name)) continue;
    DPIPE_RETURN_IF_ERROR(inputs.load(component, name, batch, device).status());
  }
  return absl::OkStatus();
}

// Keeps the prepared forms of weights, because graphs read them at fixed addresses.
void KeepForms(const nn::Program& program, const nn::ParameterSet& parameters) {
  const auto [begin, end] = program.ParameterRange(program.all_layers());
  for (int i = begin; i < end; ++i) parameters.weight(nn::ParameterId(i)).KeepForms();
}

absl::Status CheckNotStopped(const ProfilerOptions& options) {
  if (options.should_stop && options.should_stop()) return absl::CancelledError("stopped");
  return absl::OkStatus();
}

// Calls `time` with a runner that uses graphs, if they are requested, the device supports them and
// all work can be recorded. Otherwise calls it with a runner that runs all work normally.
template <typename Time>
absl::StatusOr<ComponentSamples> WithRunner(const nn::Component& component,
                                            const nn::ParameterSet& parameters, Device* device,
                                            const ProfilerOptions& options, const Time& time) {
  if (options.graphs && device->graphs() != nullptr) {
    KeepForms(component.program, parameters);
    LayerRunner runner(device->graphs(), options.warmup_passes);
    absl::StatusOr<ComponentSamples> samples = time(&runner);
    if (runner.refusal().ok()) return samples;
    device->Note(absl::StrCat(samples.status().message(), "; profiled without graphs"));
  }
  LayerRunner runner(/*graphs=*/nullptr, options.warmup_passes);
  return time(&runner);
}

absl::StatusOr<ComponentSamples> TimeFrozenBy(LayerRunner* runner, const nn::Component& component,
                                              const nn::ParameterSet& parameters, int local_batch,
                                              const std::shared_ptr<Device>& device,
                                              const ProfilerInputs& inputs,
                                              const ProfilerOptions& options) {
  const nn::Program& program = component.program;
  ComponentSamples samples;
  samples.layers.resize(program.num_layers());
  nn::RunOptions run_options;
  run_options.compute_dtype = options.compute_dtype;
  PassTimer timer(device.get());
  HeadStart head_start(HeadStart::Of::kFrozen);
  for (int pass = -runner->passes_to_skip(); pass < options.passes; ++pass) {
    DPIPE_RETURN_IF_ERROR(CheckNotStopped(options));
    Nanos load_ns = 0;
    DPIPE_ASSIGN_OR_RETURN(nn::ValueMap values,
                           MakeInputs(component, local_batch, device, inputs, options, &load_ns));
    if (pass >= 0) samples.load_ns.push_back(load_ns);
    runner->BeginPass();
    runner->Keep(values);
    EnqueueWait(device.get(), head_start.next_ns());
    const Nanos begin_ns = MonotonicNow();
    timer.Begin();
    for (int layer = 0; layer < program.num_layers(); ++layer) {
      const auto forward = [&] {
        return nn::Forward(program, {layer, layer + 1}, parameters, run_options, &values,
                           /*state=*/nullptr);
      };
      DPIPE_RETURN_IF_ERROR(Named(runner->Run(forward), component, layer));
      timer.End(&samples.layers[layer].forward_ns);
    }
    const Nanos host_ns = MonotonicNow() - begin_ns;
    DPIPE_RETURN_IF_ERROR(timer.Finish(/*keep=*/pass >= 0));
    head_start.Took(host_ns, timer.total_ns());
  }
  return samples;
}

absl::StatusOr<ComponentSamples> TimeBackboneBy(LayerRunner* runner, const nn::Component& component,
                                                nn::ParameterSet* parameters, int local_batch,
                                                const ProfilerInputs& inputs,
                                                const ProfilerOptions& options) {
  const nn::Program& program = component.program;
  const std::shared_ptr<Device>& device = parameters->device();
  ComponentSamples samples;
  samples.layers.resize(program.num_layers());
  nn::RunOptions run_options;
  run_options.compute_dtype = options.compute_dtype;
  PassTimer timer(device.get());
  HeadStart head_start(HeadStart::Of::kBackbone);
  for (int pass = -runner->passes_to_skip(); pass < options.passes; ++pass) {
    DPIPE_RETURN_IF_ERROR(CheckNotStopped(options));
    runner->BeginPass();
    Nanos load_ns = 0;  // unused: layers draw their own inputs
    DPIPE_ASSIGN_OR_RETURN(nn::ValueMap values,
                           MakeInputs(component, local_batch, device, inputs, options, &load_ns));
    runner->Keep(values);
    std::vector<nn::RangeState> states(program.num_layers());
    EnqueueWait(device.get(), head_start.next_ns());
    const Nanos begin_ns = MonotonicNow();
    for (int layer = 0; layer < program.num_layers(); ++layer) {
      const auto forward = [&] {
        return nn::Forward(program, {layer, layer + 1}, *parameters, run_options, &values,
                           &states[layer]);
      };
      timer.Begin();
      DPIPE_RETURN_IF_ERROR(DrawInputsOf(component, layer, local_batch, device, inputs));
      DPIPE_RETURN_IF_ERROR(Named(runner->Run(forward), component, layer));
      timer.End(&samples.layers[layer].forward_ns);
      if (!runner->launches()) samples.layers[layer].saved_bytes = states[layer].bytes();
    }
    values.clear();
    nn::ValueMap grads;
    grads[component.loss()] = Tensor::FromHost<float>(
        device, {local_batch}, std::vector<float>(local_batch, 1.0f / local_batch));
    runner->Keep(grads);
    for (int layer = program.num_layers() - 1; layer >= 0; --layer) {
      const LayerRange range{layer, layer + 1};
      const auto input_grad = [&] {
        return nn::InputGrad(program, range, *parameters, &states[layer], &grads);
      };
      const auto weight_grad = [&] {
        return nn::WeightGrad(program, range, parameters, &states[layer]);
      };
      timer.Begin();
      DPIPE_RETURN_IF_ERROR(Named(runner->Run(input_grad), component, layer));
      timer.End(&samples.layers[layer].input_grad_ns);
      DPIPE_RETURN_IF_ERROR(Named(runner->Run(weight_grad), component, layer));
      timer.End(&samples.layers[layer].weight_grad_ns);
    }
    const Nanos host_ns = MonotonicNow() - begin_ns;
    DPIPE_RETURN_IF_ERROR(timer.Finish(/*keep=*/pass >= 0));
    head_start.Took(host_ns, timer.total_ns());
    parameters->ZeroGrads();
  }
  return samples;
}

}  // namespace

absl::StatusOr<Tensor> TimedLoad(const nn::Component& component, const std::string& input,
                                 int samples, const std::shared_ptr<Device>& device,
                                 const ProfilerInputs& inputs, Nanos* ns) {
  const Nanos start = MonotonicNow();
  const bool is_near = device->has_host_memory();
  DPIPE_ASSIGN_OR_RETURN(const Tensor loaded,
                         inputs.load(component, input, samples, is_near ? device : Device::Cpu()));
  if (!is_near) return loaded.CopyTo(device);
  *ns += MonotonicNow() - start;
  return loaded;
}

absl::StatusOr<ComponentSamples> TimeFrozen(const nn::Component& component,
                                            const nn::ParameterSet& parameters, int local_batch,
                                            const std::shared_ptr<Device>& device,
                                            const ProfilerInputs& inputs,
                                            const ProfilerOptions& options) {
  return WithRunner(component, parameters, device.get(), options, [&](LayerRunner* runner) {
    return TimeFrozenBy(runner, component, parameters, local_batch, device, inputs, options);
  });
}

absl::StatusOr<ComponentSamples> TimeBackbone(const nn::Component& component,
                                              nn::ParameterSet* parameters, int local_batch,
                                              const ProfilerInputs& inputs,
                                              const ProfilerOptions& options) {
  Allocator& allocator = parameters->device()->allocator();
  const int64_t held_bytes = allocator.stats().allocated_bytes;
  allocator.ResetPeak();
  DPIPE_ASSIGN_OR_RETURN(ComponentSamples samples,
                         WithRunner(component, *parameters, parameters->device().get(), options,
                                    [&](LayerRunner* runner) {
                                      return TimeBackboneBy(runner, component, parameters,
                                                            local_batch, inputs, options);
                                    }));
  samples.held_bytes = held_bytes;
  samples.peak_bytes = allocator.stats().peak_bytes;
  return samples;
}

}  // namespace dpipe
