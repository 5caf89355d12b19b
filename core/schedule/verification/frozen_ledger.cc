#include "core/schedule/verification/frozen_ledger.h"

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"

namespace dpipe {
FrozenLedger::FrozenLedger(const Plan& plan, const PlanShape& shape, const CostModel& cost,
                           int rank)
    : plan_(plan),
      shape_(shape),
      cost_(cost),
      rank_(rank),
      components_(plan.components_size()),
      reads_cached_(plan.components_size()),
      cached_(plan.components_size()) {
  const int batch = plan.global_batch();
  for (Component& component : components_) {
    for (int offset : {0, 1}) {
      component.next_layer[offset].assign(batch, kNotLoaded);
      component.at_hand[offset].assign(batch, false);
    }
    component.from_before.assign(batch, false);
    component.read.assign(batch, false);
  }
  const auto mark_read = [this](int reader, LayerRange layers, SampleRange samples) {
    for (int source : cost_.SourcesOf(reader, layers)) {
      for (int n = samples.begin; n < samples.end; ++n) components_[source].read[n] = true;
    }
  };
  for (int s : shape.device_of(rank).stages) {
    const StageShape& stage = shape.stage(s);
    sources_.push_back(cost.SourcesOf(stage.component, stage.layers));
    if (sources_.back().empty()) continue;
    reads_cached_[stage.component].resize(batch, false);
    cached_[stage.component].resize(batch, false);
    for (int m = 0; m < stage.num_micro_batches; ++m) {
      const SampleRange samples = shape.SamplesOf(rank, s, m);
      mark_read(stage.component, stage.layers, samples);
      for (int n = samples.begin; n < samples.end; ++n) reads_cached_[stage.component][n] = true;
    }
  }
  for (const Instruction& instruction : plan.devices(rank).instructions()) {
    const bool runs = instruction.kind() == Instruction::FROZEN_FORWARD;
    const bool receives = instruction.kind() == Instruction::RECV &&
                          instruction.payload() == Instruction::FROZEN_OUTPUT;
    const SampleRange samples = SamplesIn(instruction);
    const int component = instruction.component();
    if (runs) {
      mark_read(component, LayersIn(instruction), samples);
    }
    const bool makes =
        receives || (runs && instruction.layers().end() == plan.components(component).num_layers());
    if (!makes || instruction.step_offset() != 1) continue;
    for (int n = samples.begin; n < samples.end; ++n) components_[component].from_before[n] = true;
  }
}

absl::Status FrozenLedger::CheckAligned(const InstructionAt& at, const Range& samples) const {
  const int quantum = plan_.frozen_quantum();
  if (samples.begin() % quantum == 0 && samples.end() % quantum == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(at.Name(), "samples [", samples.begin(), ", ", samples.end(),
                   ") are not aligned to the frozen quantum, ", quantum));
}

absl::Status FrozenLedger::LoadCached(const InstructionAt& at, const Instruction& load) {
  if (reads_cached_[load.component()].empty()) {
    return absl::InvalidArgumentError(absl::StrCat(at.Name(), "the rank has no stage of component ",
                                                   load.component(), " that reads frozen outputs"));
  }
  if (load.step_offset() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(at.Name(), "step_offset is ", load.step_offset(),
                                                   "; cached outputs must have 0"));
  }
  const SampleRange samples = SamplesIn(load);
  for (int n = samples.begin; n < samples.end; ++n) {
    if (!reads_cached_[load.component()][n]) {
      return absl::InvalidArgumentError(
          absl::StrCat(at.Name(), "this rank does not train on sample ", n));
    }
    if (cached_[load.component()][n]) {
      return absl::InvalidArgumentError(
          absl::StrCat(at.Name(), "sample ", n, " is already loaded"));
    }
    cached_[load.component()][n] = true;
  }
  return absl::OkStatus();
}

absl::Status FrozenLedger::Load(const InstructionAt& at, const Instruction& load) {
  const bool of_backbone = cost_.IsBackbone(load.component());
  if (of_backbone != IsCached()) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "component ", load.component(), " is", of_backbone ? "" : " not",
                     " a backbone, but frozen outputs are", IsCached() ? "" : " not", " cached"));
  }
  if (IsCached()) return LoadCached(at, load);
  DPIPE_RETURN_IF_ERROR(CheckAligned(at, load.samples()));
  Component& component = components_[load.component()];
  for (int n = load.samples().begin(); n < load.samples().end(); ++n) {
    if (component.next_layer[0][n] != kNotLoaded || component.next_layer[1][n] != kNotLoaded) {
      return absl::InvalidArgumentError(
          absl::StrCat(at.Name(), "sample ", n, " is already loaded"));
    }
    component.next_layer[load.step_offset()][n] = 0;
  }
  return absl::OkStatus();
}

absl::Status FrozenLedger::Run(const InstructionAt& at, const Instruction& work) {
  if (cost_.IsBackbone(work.component()))
    return absl::InvalidArgumentError(at.Name() + "a backbone is not frozen");
  if (IsCached())
    return absl::InvalidArgumentError(at.Name() +
                                      "frozen outputs are cached and must not be computed");
  DPIPE_RETURN_IF_ERROR(CheckAligned(at, work.samples()));
  const LayerRange layers = LayersIn(work);
  const SampleRange samples = SamplesIn(work);
  const int offset = work.step_offset();
  DPIPE_RETURN_IF_ERROR(
      CheckSources(at, cost_.SourcesOf(work.component(), layers), samples, offset));
  Component& component = components_[work.component()];
  const bool finishes = layers.end == cost_.num_layers(work.component());
  for (int n = samples.begin; n < samples.end; ++n) {
    int& next = component.next_layer[offset][n];
    if (next == kNotLoaded)
      return absl::InvalidArgumentError(
          absl::StrCat(at.Name(), "sample ", n, " is not loaded here"));
    if (next != layers.begin) {
      return absl::InvalidArgumentError(absl::StrCat(at.Name(), "sample ", n, " is at layer ", next,
                                                     " and must be at ", layers.begin));
    }
    next = layers.end;
    if (finishes) component.at_hand[offset][n] = true;
  }
  return absl::OkStatus();
}

absl::Status FrozenLedger::Send(const InstructionAt& at, const Instruction& send) const {
  const Component& component = components_[send.component()];
  const int end = cost_.num_layers(send.component());
  for (int n = send.samples().begin(); n < send.samples().end(); ++n) {
    const int next = component.next_layer[send.step_offset()][n];
    if (next == end) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "outputs of component ", send.component(), " for sample ", n,
                     " are not computed here: its chain is at layer ", next, " of ", end));
  }
  return absl::OkStatus();
}

absl::Status FrozenLedger::Receive(const InstructionAt& at, const Instruction& receive) {
  Component& component = components_[receive.component()];
  const int offset = receive.step_offset();
  for (int n = receive.samples().begin(); n < receive.samples().end(); ++n) {
    if (!component.read[n]) {
      return absl::InvalidArgumentError(absl::StrCat(at.Name(), "sample ", n, " of component ",
                                                     receive.component(),
                                                     " is not read on this rank"));
    }
    const bool twice = component.at_hand[0][n] || component.at_hand[1][n] ||
                       (offset == 0 && component.from_before[n]) ||
                       component.next_layer[0][n] != kNotLoaded ||
                       component.next_layer[1][n] != kNotLoaded;
    if (twice) {
      return absl::InvalidArgumentError(absl::StrCat(at.Name(), "sample ", n, " of component ",
                                                     receive.component(),
                                                     " is available without it"));
    }
    component.at_hand[offset][n] = true;
  }
  return absl::OkStatus();
}

absl::Status FrozenLedger::CheckMove(const InstructionAt& at, const Instruction& move) const {
  const LayerRange layers = LayersIn(move);
  if (layers.begin < 1 || layers.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "layers are ", layers.ToString(),
                     "; they must be one layer, the next one, and not the first"));
  }
  return CheckAligned(at, move.samples());
}

absl::Status FrozenLedger::SendValues(const InstructionAt& at, const Instruction& send) {
  DPIPE_RETURN_IF_ERROR(CheckMove(at, send));
  Component& component = components_[send.component()];
  for (int n = send.samples().begin(); n < send.samples().end(); ++n) {
    int& next = component.next_layer[send.step_offset()][n];
    if (next != send.layers().begin()) {
      return absl::InvalidArgumentError(absl::StrCat(at.Name(), "sample ", n, " is at layer ", next,
                                                     " and must be at ", send.layers().begin()));
    }
    next = kNotLoaded;
  }
  return absl::OkStatus();
}

absl::Status FrozenLedger::ReceiveValues(const InstructionAt& at, const Instruction& receive) {
  if (IsCached())
    return absl::InvalidArgumentError(at.Name() +
                                      "frozen outputs are cached and must not be computed");
  DPIPE_RETURN_IF_ERROR(CheckMove(at, receive));
  Component& component = components_[receive.component()];
  for (int n = receive.samples().begin(); n < receive.samples().end(); ++n) {
    if (component.next_layer[0][n] != kNotLoaded || component.next_layer[1][n] != kNotLoaded) {
      return absl::InvalidArgumentError(absl::StrCat(at.Name(), "sample ", n, " of component ",
                                                     receive.component(), " is here already"));
    }
    component.next_layer[receive.step_offset()][n] = receive.layers().begin();
  }
  return absl::OkStatus();
}

absl::Status FrozenLedger::CheckSources(const InstructionAt& at, const std::vector<int>& sources,
                                        SampleRange samples, int step_offset) const {
  for (int source : sources) {
    const Component& from = components_[source];
    for (int n = samples.begin; n < samples.end; ++n) {
      if (from.at_hand[step_offset][n]) continue;
      if (step_offset == 0 && from.from_before[n]) continue;
      return absl::InvalidArgumentError(absl::StrCat(at.Name(), "outputs of component ", source,
                                                     " for sample ", n, " are not available"));
    }
  }
  return absl::OkStatus();
}

absl::Status FrozenLedger::CheckReadable(const InstructionAt& at, int stage,
                                         SampleRange samples) const {
  size_t held = 0;
  while (shape_.device_of(rank_).stages[held] != stage) ++held;
  const std::vector<int>& sources = sources_[held];
  if (!IsCached()) return CheckSources(at, sources, samples, 0);
  if (sources.empty()) return absl::OkStatus();
  const std::vector<bool>& loaded = cached_[shape_.stage(stage).component];
  for (int n = samples.begin; n < samples.end; ++n) {
    if (loaded[n]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "the cached outputs for sample ", n, " are not loaded"));
  }
  return absl::OkStatus();
}

absl::Status FrozenLedger::Finish(std::vector<std::vector<int>>* computed) const {
  for (int c = 0; c < static_cast<int>(components_.size()); ++c) {
    for (int n = 0; n < plan_.global_batch(); ++n) {
      for (int offset : {0, 1}) {
        const int next = components_[c].next_layer[offset][n];
        if (next == kNotLoaded) continue;
        if (next != cost_.num_layers(c)) {
          return absl::InvalidArgumentError(absl::StrCat("rank ", rank_, ": component ", c,
                                                         ", sample ", n, " stops at layer ", next,
                                                         " of ", cost_.num_layers(c)));
        }
        ++(*computed)[c][n];
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace dpipe
