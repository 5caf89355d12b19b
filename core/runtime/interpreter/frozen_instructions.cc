// Frozen components: loading their inputs, and running ranges of their layers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/proto/instruction_parts.h"
#include "core/runtime/interpreter/rank_executor.h"

namespace dpipe {

absl::StatusOr<Tensor> RankExecutor::LoadOntoDevice(const std::string& component,
                                                    const std::string& input, int64_t step,
                                                    SampleRange samples) {
  DPIPE_ASSIGN_OR_RETURN(
      const Tensor loaded,
      prefetcher_ != nullptr
          ? prefetcher_->Load(component, input, step, samples, resources_.loader)
          : LoadInput(*resources_.inputs, component, input, step, samples, resources_.loader));
  if (resources_.loader == resources_.device) return loaded;
  resources_.device->WaitFor(*resources_.loader->RecordEvent());
  return loaded.ViewOn(resources_.device);
}

// For a frozen component, loads its inputs and stores them with the chain's values. For the
// backbone, loads the frozen outputs from the cache, whose quanta are single samples. They are
// loaded in one piece, so that a GPU gets one copy instead of one per sample.
absl::Status RankExecutor::LoadBatch(const Instruction& instruction, int64_t step) {
  const nn::Component& target = component(instruction.component());
  const SampleRange samples = SamplesIn(instruction);
  const int piece = target.is_backbone ? samples.size() : frozen_.quantum();
  for (int begin = samples.begin; begin < samples.end; begin += piece) {
    const SampleRange range{begin, std::min(begin + piece, samples.end)};
    for (ValueId id : target.program.inputs()) {
      const std::string& name = target.program.value(id).name;
      const auto source = target.sources.find(name);
      if (target.is_backbone != (source != target.sources.end())) continue;
      DPIPE_ASSIGN_OR_RETURN(Tensor value, LoadOntoDevice(target.name, name, step, range));
      if (target.is_backbone) {
        const int from = model().FindComponent(source->second.component);
        frozen_.Put(from, source->second.output, step, begin, std::move(value));
      } else {
        frozen_values_[{step, instruction.component(), begin}][id] = std::move(value);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RankExecutor::FrozenForward(const Instruction& instruction, int64_t step) {
  const SampleRange samples = SamplesIn(instruction);
  DPIPE_RETURN_IF_ERROR(
      ReceiveFrozenValues(instruction.component(), instruction.layers().begin(), step, samples));
  for (const auto& [input, source] : component(instruction.component()).sources) {
    DPIPE_RETURN_IF_ERROR(ReceiveFrozen(model().FindComponent(source.component), step, samples));
  }
  MarkStart();
  for (int begin = samples.begin; begin < samples.end; begin += frozen_.quantum()) {
    DPIPE_RETURN_IF_ERROR(FrozenQuantum(instruction, step, frozen_.QuantumAt(begin, samples)));
  }
  return absl::OkStatus();
}

absl::Status RankExecutor::FrozenQuantum(const Instruction& instruction, int64_t step,
                                         SampleRange samples) {
  const int index = instruction.component();
  const nn::Program& program = component(index).program;
  const LayerRange layers = LayersIn(instruction);
  const std::tuple<int64_t, int, int> key(step, index, samples.begin);
  nn::ValueMap& values = frozen_values_[key];
  for (ValueId id : program.InputsReadBy(layers)) {
    if (values.count(id) > 0) continue;
    const std::string& name = program.value(id).name;
    const auto source = component(index).sources.find(name);
    if (source == component(index).sources.end()) {
      // Another rank has loaded it and run the layers before these.
      DPIPE_ASSIGN_OR_RETURN(values[id],
                             LoadOntoDevice(component(index).name, name, step, samples));
      continue;
    }
    const int from = model().FindComponent(source->second.component);
    DPIPE_ASSIGN_OR_RETURN(values[id], frozen_.Get(from, source->second.output, step, samples));
  }
  PassCall call;
  call.program = &program;
  call.layers = layers;
  call.frozen = resources_.frozen_parameters[index];
  call.options.compute_dtype = resources_.compute_dtype;
  call.values = &values;
  DPIPE_RETURN_IF_ERROR(RunPass(/*stage=*/-1, call, /*hold=*/nullptr));
  for (ValueId id : program.OutputsOf(layers)) {
    frozen_.Put(index, program.value(id).name, step, samples.begin, values[id]);
  }
  if (layers.end == program.num_layers()) frozen_values_.erase(key);
  return absl::OkStatus();
}

// Waits for those messages with frozen outputs that contain any of `samples`.
absl::Status RankExecutor::ReceiveFrozen(int index, int64_t step, SampleRange samples) {
  const auto it = incoming_frozen_.find({step, index});
  if (it == incoming_frozen_.end()) return absl::OkStatus();
  std::vector<Incoming> later;
  for (Incoming& part : it->second) {
    if (part.samples.Intersect(samples).empty()) {
      later.push_back(std::move(part));
      continue;
    }
    DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, Await(part));
    size_t next = 0;
    for (ValueId id : component(index).program.outputs()) {
      for (int begin = part.samples.begin; begin < part.samples.end; begin += frozen_.quantum()) {
        frozen_.Put(index, component(index).program.value(id).name, step, begin,
                    tensors[next++].ViewOn(resources_.device));
      }
    }
  }
  if (later.empty()) {
    incoming_frozen_.erase(it);
  } else {
    it->second = std::move(later);
  }
  return absl::OkStatus();
}

// Frozen outputs are the only messages that no computation of the same step has to wait for. (The
// layers that read frozen values are in the same step's list.)
absl::Status RankExecutor::Flush(int64_t step) {
  for (int c = 0; c < plan().components_size(); ++c) {
    DPIPE_RETURN_IF_ERROR(ReceiveFrozen(c, step, {0, plan().global_batch()}));
  }
  double nothing = 0;
  DPIPE_RETURN_IF_ERROR(
      resources_.communicator->AllReduceSum(absl::MakeSpan(&nothing, 1), "a flush"));
  MarkStart();
  return absl::OkStatus();
}

}  // namespace dpipe
