#include "core/runtime/stage_routes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"

namespace dpipe {
namespace {

// Follows the values through the stages of one lap.
class LapRouter {
 public:
  LapRouter(const Plan& plan, const nn::Program& program, int first, int count,
            std::vector<StageRoutes>* routes)
      : plan_(plan), program_(program), first_(first), count_(count), routes_(*routes) {
    for (int s = first; s < first + count; ++s) {
      for (int l = routes_[s].layers.begin; l < routes_[s].layers.end; ++l) {
        stage_of_layer_.push_back(s);
      }
    }
  }

  void Route() {
    for (int s = first_; s + 1 < first_ + count_; ++s) {
      const int cut = routes_[s].layers.end;
      for (ValueId id : program_.LiveAt(cut)) {
        if (!ReadElsewhere(id, s + 1)) continue;
        routes_[s].activations_out.push_back(id);
        routes_[s + 1].activations_in.push_back(id);
      }
      if (routes_[s].forward_only) continue;
      for (ValueId id : program_.GradientsAt(cut)) {
        if (!ReadElsewhere(id, first_)) continue;
        routes_[s].gradients_in.push_back(id);
        routes_[s + 1].gradients_out.push_back(id);
      }
    }
    for (int s = first_; s < first_ + count_; ++s) FindReads(s);
    if (!routes_[first_].forward_only) FindKeptGradients();
  }

 private:
  int DeviceOf(int stage) const { return plan_.stages(stage).ranks(0); }
  int MakerOf(ValueId id) const { return stage_of_layer_[program_.value(id).layer]; }
  std::set<int> ReadersOf(ValueId id) const {
    std::set<int> stages;
    for (nn::NodeId use : program_.value(id).uses) {
      stages.insert(stage_of_layer_[program_.node(use).layer]);
    }
    return stages;
  }

  // True if a stage at or after `from` reads the value on a device other than its producer's.
  bool ReadElsewhere(ValueId id, int from) const {
    for (int reader : ReadersOf(id)) {
      if (reader >= from && DeviceOf(reader) != DeviceOf(MakerOf(id))) return true;
    }
    return false;
  }

  static bool Has(const std::vector<ValueId>& ids, ValueId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  }

  void FindReads(int s) {
    for (ValueId id : program_.LiveAt(routes_[s].layers.begin)) {
      const std::set<int> readers = ReadersOf(id);
      if (readers.count(s) == 0) continue;
      if (Has(routes_[s].activations_in, id)) continue;
      const int maker = MakerOf(id);
      if (!Has(routes_[maker].keeps, id)) routes_[maker].keeps.push_back(id);
      bool is_last = true;
      for (int later : readers) {
        if (later > s && !Has(routes_[later].activations_in, id)) is_last = false;
      }
      routes_[s].kept_reads.push_back({id, is_last});
    }
  }

  // Finds the gradients that stay on a device, from the last stage to the first as in the backward
  // pass.
  void FindKeptGradients() {
    std::map<int, std::set<ValueId>> kept;  // by device
    for (int s = first_ + count_ - 1; s >= first_; --s) {
      StageRoutes& stage = routes_[s];
      std::set<ValueId>& here = kept[DeviceOf(s)];
      for (ValueId id : here) stage.kept_gradients_in.push_back(id);
      std::set<ValueId> taken = std::exchange(here, {});
      for (ValueId id : program_.GradientsAt(stage.layers.begin)) {
        if (DeviceOf(MakerOf(id)) != DeviceOf(s) || Has(stage.gradients_out, id)) continue;
        if (taken.count(id) == 0 && ReadersOf(id).count(s) == 0) continue;
        stage.kept_gradients_out.push_back(id);
        here.insert(id);
      }
    }
  }

  const Plan& plan_;
  const nn::Program& program_;
  const int first_, count_;
  std::vector<StageRoutes>& routes_;
  std::vector<int> stage_of_layer_;
};

void AddBlocks(const nn::Program& program, const Stage& stage, StageRoutes* routes) {
  const auto reads = [&program](ValueId id, LayerRange layers) {
    const std::vector<nn::NodeId>& uses = program.value(id).uses;
    return std::any_of(uses.begin(), uses.end(),
                       [&](nn::NodeId use) { return layers.Contains(program.node(use).layer); });
  };
  for (const LayerRange& layers : BlocksOf(stage)) {
    RecomputedBlock& block = routes->blocks.emplace_back();
    block.layers = layers;
    std::vector<ValueId> values = program.LiveAt(layers.begin);
    if (routes->self_conditioning != ValueId()) values.push_back(routes->self_conditioning);
    for (ValueId id : values) {
      if (!reads(id, layers)) continue;
      block.reads.push_back(id);
      if (!reads(id, {routes->layers.begin, layers.begin})) block.last_reads.push_back(id);
    }
  }
}

// Fills in the stage's own properties; `first` begins its lap.
void Describe(const Plan& plan, const nn::Model& model, int first, int s, StageRoutes* routes) {
  const Stage& stage = plan.stages(s);
  const nn::Component& component = model.component(stage.component());
  routes->component = stage.component();
  routes->backbone = model.BackboneNumber(stage.component());
  routes->layers = LayersIn(stage);
  routes->chain = stage.chain();
  routes->lap = first;
  routes->ends_lap = routes->layers.end == component.program.num_layers();
  routes->forward_only = stage.forward_only();
  routes->sharded = stage.sharded();
  for (ValueId id : component.program.InputsReadBy(routes->layers)) {
    ExternalInput input;
    input.id = id;
    input.name = component.program.value(id).name;
    if (input.name == component.self_conditioning.input) {
      routes->self_conditioning = id;
      continue;
    }
    const auto source = component.sources.find(input.name);
    if (source != component.sources.end()) {
      input.source = model.FindComponent(source->second.component);
      input.output = source->second.output;
    }
    routes->inputs.push_back(std::move(input));
  }
  if (stage.recompute()) AddBlocks(component.program, stage, routes);
}

absl::Status RouteLap(const Plan& plan, const nn::Model& model, int component, int first, int count,
                      std::vector<StageRoutes>* routes) {
  const std::string place = absl::StrCat("chain of ", model.component(component).name, ": ");
  int next_layer = 0;
  for (int s = first; s < first + count; ++s) {
    const Stage& stage = plan.stages(s);
    if (stage.component() != component || stage.layers().begin() != next_layer ||
        stage.layers().end() <= next_layer || stage.ranks().empty() ||
        stage.forward_only() != plan.stages(first).forward_only()) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, "stage ", s, " does not continue it at layer ", next_layer));
    }
    next_layer = stage.layers().end();
    Describe(plan, model, first, s, &(*routes)[s]);
    if (s > first && (*routes)[s].self_conditioning != ValueId()) {
      return absl::InvalidArgumentError(absl::StrCat(
          place, "stage ", s, " reads the self-conditioning input ",
          model.component(component).self_conditioning.input, ", which only the first stage has"));
    }
  }
  const nn::Program& program = model.component(component).program;
  if (next_layer != program.num_layers()) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, "its stages end at layer ", next_layer, " of ", program.num_layers()));
  }
  LapRouter(plan, program, first, count, routes).Route();
  return absl::OkStatus();
}

absl::Status RouteChain(const Plan& plan, const nn::Model& model, const PipelineChain& chain,
                        std::vector<StageRoutes>* routes) {
  const int first = chain.first_stage(), count = chain.num_stages();
  if (chain.component() < 0 || chain.component() >= model.num_components() ||
      !model.component(chain.component()).is_backbone) {
    return absl::InvalidArgumentError(
        absl::StrCat("a chain of component ", chain.component(), ", which is not a backbone"));
  }
  if (first < 0 || count < 1 || first + count > plan.stages_size()) {
    return absl::InvalidArgumentError(absl::StrCat("a chain of ", count, " stages from ", first,
                                                   "; the plan has ", plan.stages_size()));
  }
  const nn::Component& component = model.component(chain.component());
  const bool two_laps = plan.stages(first).forward_only();
  const int lap = two_laps ? count / 2 : count;
  if (two_laps && (count % 2 != 0 || component.self_conditioning.input.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", model.name(), ": component ", component.name,
                     count % 2 != 0 ? " has laps of unequal length"
                                    : " declares no self-conditioning, but the plan runs it "
                                      "twice per micro-batch"));
  }
  for (int begin = first; begin < first + count; begin += lap) {
    DPIPE_RETURN_IF_ERROR(RouteLap(plan, model, chain.component(), begin, lap, routes));
  }
  for (int s = first; s < first + count; ++s) {
    StageRoutes& stage = (*routes)[s];
    if (s > first) stage.previous = s - 1;
    if (s + 1 < first + count) stage.next = s + 1;
    if (s == first) continue;
    const bool local = plan.stages(s).ranks(0) == plan.stages(s - 1).ranks(0);
    stage.previous_is_local = (*routes)[s - 1].next_is_local = local;
  }
  if (two_laps) {
    (*routes)[first + lap - 1].activations_out = {
        component.program.OutputNamed(component.self_conditioning.output)};
    (*routes)[first + lap].activations_in = {
        component.program.InputNamed(component.self_conditioning.input)};
  }
  return absl::OkStatus();
}

absl::Status CheckShards(const Plan& plan) {
  for (const Stage& stage : plan.stages()) {
    for (const Stage& other : plan.stages()) {
      if (!stage.sharded() || stage.component() != other.component()) continue;
      const bool overlap = stage.layers().begin() < other.layers().end() &&
                           other.layers().begin() < stage.layers().end();
      if (!overlap) continue;
      if (other.sharded() && other.keeps_frozen_weights() == stage.keeps_frozen_weights() &&
          std::equal(stage.ranks().begin(), stage.ranks().end(), other.ranks().begin(),
                     other.ranks().end())) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat("stage ", stage.id(),
                                                     " is sharded, but stage ", other.id(),
                                                     " holds some of its layers differently"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<StageRoutes>> RouteStages(const Plan& plan, const nn::Model& model) {
  std::vector<StageRoutes> routes(plan.stages_size());
  std::vector<PipelineChain> chains(plan.chains().begin(), plan.chains().end());
  if (chains.empty() && plan.stages_size() > 0) {
    PipelineChain& chain = chains.emplace_back();
    chain.set_component(plan.stages(0).component());
    chain.set_num_stages(plan.stages_size());
  }
  for (const PipelineChain& chain : chains) {
    DPIPE_RETURN_IF_ERROR(RouteChain(plan, model, chain, &routes));
  }
  DPIPE_RETURN_IF_ERROR(CheckShards(plan));
  return routes;
}

}  // namespace dpipe
