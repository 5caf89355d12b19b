#include "core/runtime/interpreter/pass_graphs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe {
namespace {

// Runs before a pass is recorded: one for lazy initialization, and one to measure it.
constexpr int kRunsBefore = 2;

const char* Name(PassKind kind) {
  switch (kind) {
    case PassKind::kForward:
      return "forward";
    case PassKind::kBackward:
      return "backward";
    case PassKind::kInputGrad:
      return "input gradients";
    case PassKind::kWeightGrad:
      return "weight gradients";
  }
  return "";
}

const nn::ParameterSet& ParametersOf(const PassCall& call) {
  return call.parameters != nullptr ? *call.parameters : *call.frozen;
}

template <typename F>
void ForEachParameter(const PassCall& call, const F& f) {
  const auto [begin, end] = call.program->ParameterRange(call.layers);
  for (int i = begin; i < end; ++i) f(nn::ParameterId(i));
}

// Returns all addresses that a recording of the pass uses, other than its own buffers.
std::vector<const void*> Addresses(const PassCall& call) {
  const nn::ParameterSet& parameters = ParametersOf(call);
  std::vector<const void*> addresses;
  ForEachParameter(call, [&](nn::ParameterId id) {
    addresses.push_back(&parameters.weight(id));
    addresses.push_back(parameters.weight(id).stored_data());
  });
  if (call.kind == PassKind::kForward || call.kind == PassKind::kInputGrad) return addresses;
  for (nn::ParameterId id : parameters.trainable_ids()) {
    addresses.push_back(parameters.grad(id).raw_data());
  }
  return addresses;
}

absl::Status RefreshForms(const PassCall& call) {
  absl::Status status;
  ForEachParameter(call, [&](nn::ParameterId id) {
    status.Update(ParametersOf(call).weight(id).RefreshForms());
  });
  return status;
}

// Returns the addresses of the tensors saved for the pass.
std::vector<const void*> StateAddresses(const PassCall& call) {
  std::vector<const void*> addresses;
  for (const Tensor& saved : call.state->saved(call.layers)) {
    addresses.push_back(saved.defined() ? saved.raw_data() : nullptr);
  }
  return addresses;
}

bool IsForward(const PassCall& call) { return call.kind == PassKind::kForward; }

}  // namespace

absl::Status RunPass(const PassCall& call) {
  switch (call.kind) {
    case PassKind::kForward:
      return nn::Forward(*call.program, call.layers, ParametersOf(call), call.options, call.values,
                         call.state);
    case PassKind::kBackward:
      return nn::Backward(*call.program, call.layers, call.parameters, call.state, call.values);
    case PassKind::kInputGrad:
      return nn::InputGrad(*call.program, call.layers, *call.parameters, call.state, call.values);
    case PassKind::kWeightGrad:
      return nn::WeightGrad(*call.program, call.layers, call.parameters, call.state);
  }
  return absl::InternalError("no such pass");
}

struct PassGraphs::Recording {
  explicit Recording(std::shared_ptr<int> count) : num_graphs(std::move(count)) { ++*num_graphs; }
  ~Recording() { --*num_graphs; }

  const std::shared_ptr<int> num_graphs;
  std::vector<const void*> addresses;        // of parameters, see Addresses
  std::vector<const void*> state_addresses;  // before the pass
  nn::ValueMap inputs;                       // buffers
  nn::ValueMap outputs;                      // new values
  std::vector<ValueId> dropped;              // present before the pass, and absent after it
  nn::RangeState state;                      // after the pass
  std::unique_ptr<DeviceGraph> graph;
};

class PassGraphs::Lane {
 public:
  std::map<Key, std::unique_ptr<Recording>> recordings;
};

struct PassGraphs::Site {
  int runs = 0;
  int64_t memory_bytes = 0;
  bool given_up = false;
  std::vector<std::shared_ptr<Lane>> lanes;  // of a forward pass
};

PassGraphs::PassGraphs(std::shared_ptr<Device> device, PassGraphsOptions options)
    : device_(std::move(device)), options_(std::move(options)) {
  DPIPE_CHECK(device_->graphs() != nullptr) << device_->name() << " cannot record graphs";
}

PassGraphs::~PassGraphs() = default;

const std::vector<ValueId>& PassGraphs::UsedBy(const nn::Program& program, LayerRange layers) {
  std::vector<ValueId>& used = used_[{&program, layers}];
  if (!used.empty() || layers.empty()) return used;
  const int end = program.layer(layers.end - 1).end_node;
  for (int i = program.layer(layers.begin).begin_node; i < end; ++i) {
    const nn::NodeInfo& node = program.node(nn::NodeId(i));
    used.insert(used.end(), node.inputs.begin(), node.inputs.end());
    used.push_back(node.output);
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

PassGraphs::Key PassGraphs::KeyOf(const PassCall& call) const {
  Key key = {static_cast<int64_t>(call.kind),
             reinterpret_cast<int64_t>(call.program),
             reinterpret_cast<int64_t>(&ParametersOf(call)),
             call.layers.begin,
             call.layers.end,
             call.state != nullptr,
             static_cast<int64_t>(call.options.compute_dtype)};
  const auto add = [&key](int64_t id, const Tensor& tensor) {
    key.push_back(id);
    key.push_back(static_cast<int64_t>(tensor.dtype()));
    key.push_back(tensor.shape().rank());
    key.insert(key.end(), tensor.shape().dims().begin(), tensor.shape().dims().end());
  };
  if (call.values != nullptr) {
    for (const auto& [id, tensor] : *call.values) add(id.value(), tensor);
  }
  if (IsForward(call)) return key;
  key.push_back(-1);  // and of the inputs of weight gradients
  for (const Tensor& saved : call.state->saved(call.layers)) add(-1, saved);
  return key;
}

absl::Status PassGraphs::Run(const PassCall& call, Hold* hold) {
  if (call.values != nullptr) {
    for (const auto& [id, tensor] : *call.values) {
      if (!tensor.defined()) return RunPass(call);  // reports the missing value
    }
  }
  if (IsForward(call) && hold != nullptr) *hold = Hold();
  const Key key = KeyOf(call);
  Site& site = sites_[key];
  if (site.given_up || site.runs < kRunsBefore) return RunUnrecorded(call, &site, hold);
  const std::shared_ptr<Lane> lane = LaneOf(call, key, &site, hold);
  if (lane == nullptr) return RunUnrecorded(call, &site, hold);
  DPIPE_RETURN_IF_ERROR(RefreshForms(call));
  std::unique_ptr<Recording>& recording = lane->recordings[key];
  if (recording == nullptr) {
    absl::StatusOr<std::unique_ptr<Recording>> made = Record(call, site);
    if (!made.ok()) {
      GiveUp(call, std::string(made.status().message()), &site);
      return RunUnrecorded(call, &site, hold);
    }
    recording = *std::move(made);
  }
  if (recording->addresses != Addresses(call)) {
    GiveUp(call, "its parameters move", &site);
    return RunUnrecorded(call, &site, hold);
  }
  if (!IsForward(call) && recording->state_addresses != StateAddresses(call)) {
    return RunUnrecorded(call, &site, hold);
  }
  Launch(call, *recording);
  if (IsForward(call) && call.state != nullptr) hold->lane = lane;
  return absl::OkStatus();
}

absl::Status PassGraphs::RunUnrecorded(const PassCall& call, Site* site, Hold* hold) {
  if (site->runs == 0) {
    ForEachParameter(call, [&](nn::ParameterId id) { ParametersOf(call).weight(id).KeepForms(); });
  }
  absl::Status status;
  if (site->runs == kRunsBefore - 1) {
    DPIPE_RETURN_IF_ERROR(RefreshForms(call));
    site->memory_bytes = device_->graphs()->MeasureMemory([&] { status = RunPass(call); });
  } else {
    status = RunPass(call);
  }
  ++site->runs;
  if (!status.ok() || IsForward(call) || hold->lane == nullptr) return status;
  // The inputs of weight gradients are in a different place from now on.
  if (call.kind == PassKind::kInputGrad) hold->all_launched = false;
  // Outputs must not be tensors that the lane's next micro-batch overwrites.
  if (call.values != nullptr) {
    for (auto& [id, tensor] : *call.values) tensor = tensor.Clone();
  }
  return absl::OkStatus();
}

std::shared_ptr<PassGraphs::Lane> PassGraphs::LaneOf(const PassCall& call, const Key& key,
                                                     Site* site, const Hold* hold) {
  std::shared_ptr<Lane> lane;
  if (!IsForward(call)) {
    if (hold->all_launched) lane = hold->lane;
  } else {
    // A lane is free if no micro-batch holds it. A pass without a state is done when it is
    // launched.
    const auto is_free = [](const std::shared_ptr<Lane>& each) { return each.use_count() == 1; };
    const auto free = std::find_if(site->lanes.begin(), site->lanes.end(), is_free);
    if (free != site->lanes.end()) lane = *free;
  }
  const bool is_full = *num_graphs_ >= options_.max_graphs;
  if (lane != nullptr && (!is_full || lane->recordings.count(key) > 0)) return lane;
  if (lane == nullptr && !IsForward(call)) return nullptr;
  if (!is_full) return site->lanes.emplace_back(std::make_shared<Lane>());
  if (!std::exchange(said_full_, true) && options_.say) {
    options_.say(absl::StrCat(device_->name(), " has ", options_.max_graphs,
                              " graphs and will record no more"));
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<PassGraphs::Recording>> PassGraphs::Record(const PassCall& call,
                                                                          const Site& site) {
  auto recording = std::make_unique<Recording>(num_graphs_);
  recording->addresses = Addresses(call);
  nn::ValueMap inside;
  if (call.values != nullptr) {
    inside = *call.values;
    for (ValueId id : UsedBy(*call.program, call.layers)) {
      const auto it = inside.find(id);
      if (it == inside.end()) continue;
      it->second = Tensor::Empty(device_, it->second.shape(), it->second.dtype());
      recording->inputs[id] = it->second;
    }
  }
  const nn::ValueMap before = inside;
  if (!IsForward(call)) {
    recording->state_addresses = StateAddresses(call);
    recording->state = call.state->Share();
  }
  PassCall recorded = call;
  if (call.values != nullptr) recorded.values = &inside;
  if (call.state != nullptr) recorded.state = &recording->state;
  DPIPE_ASSIGN_OR_RETURN(recording->graph, device_->graphs()->Record(site.memory_bytes, [&] {
    return RunPass(recorded);
  }));
  for (const auto& [id, tensor] : before) {
    if (inside.count(id) == 0) recording->dropped.push_back(id);
  }
  for (const auto& [id, tensor] : inside) {
    const auto it = before.find(id);
    if (it != before.end() && it->second.raw_data() == tensor.raw_data()) continue;
    recording->outputs[id] = tensor;
  }
  return recording;
}

void PassGraphs::Launch(const PassCall& call, const Recording& recording) {
  for (const auto& [id, buffer] : recording.inputs) {
    Tensor(buffer).CopyFrom(call.values->at(id));
  }
  recording.graph->Launch();
  for (ValueId id : recording.dropped) call.values->erase(id);
  for (const auto& [id, tensor] : recording.outputs) (*call.values)[id] = tensor.Clone();
  if (call.state == nullptr) return;
  if (IsForward(call)) {
    *call.state = recording.state.Share();
  } else {
    call.state->ShareLayers(recording.state, call.layers);
  }
}

void PassGraphs::GiveUp(const PassCall& call, const std::string& reason, Site* site) {
  site->given_up = true;
  site->lanes.clear();
  if (!options_.say) return;
  options_.say(absl::StrCat(device_->name(), ": ", call.program->name(), ", layers ",
                            call.layers.ToString(), ", ", Name(call.kind),
                            ": runs without a graph: ", reason));
}

}  // namespace dpipe
