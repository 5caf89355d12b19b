#include "core/schedule/symbolic_run.h"

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

using Hash = uint64_t;

Hash Mix(std::initializer_list<Hash> parts) {
  Hash hash = 14695981039346656037u;
  for (Hash part : parts) {
    hash = (hash ^ part) * 1099511628211u;
    hash ^= hash >> 29;
  }
  return hash;
}

enum Tag : Hash {
  kLoaded = 1,
  kFrozen,
  kInput,
  kForward,
  kGradIn,
  kGrad,
  kWeight,
  kSum,
  kReduce,
  kStep
};

Hash InitialWeight(int layer) { return Mix({kStep, static_cast<Hash>(layer)}); }
Hash Loaded(int component, int sample, int step) {
  return Mix(
      {kLoaded, static_cast<Hash>(component), static_cast<Hash>(sample), static_cast<Hash>(step)});
}
Hash FrozenLayer(int component, int layer, Hash input, Hash sources) {
  return Mix({kFrozen, static_cast<Hash>(component), static_cast<Hash>(layer), input, sources});
}
Hash ForwardLayer(int layer, Hash input, Hash weight, Hash sources) {
  return Mix({kForward, static_cast<Hash>(layer), input, weight, sources});
}
Hash GradLayer(int layer, Hash gradient, Hash input) {
  return Mix({kGrad, static_cast<Hash>(layer), gradient, input});
}
Hash WeightGrad(int layer, Hash gradient, Hash input) {
  return Mix({kWeight, static_cast<Hash>(layer), gradient, input});
}

absl::Status Missing(const std::string& what) { return absl::InternalError(what); }

// One sample's passage through some layers.
struct Passage {
  std::map<int, Hash> inputs;     // by layer
  std::map<int, Hash> gradients;  // arriving at the layer's output
  Hash output = 0;
  bool forward = false;
};

using SampleKey = std::tuple<int, int, int>;  // component or micro-batch, sample, step

struct RankSymbols {
  int stage = 0, begin = 0, end = 0;
  std::vector<Hash> weights, sums;
  std::map<SampleKey, std::pair<int, Hash>> chains;  // next layer, value
  std::map<SampleKey, Hash> outputs;                 // of frozen components
  std::map<SampleKey, Passage> passages;             // by micro-batch
  std::map<SampleKey, Hash> activations, gradients;  // received
  int step = -1, next = 0;
  int sent_end = 0;                               // messages before it are posted
  std::map<std::pair<int, int>, int> reductions;  // done, by (step, stage)
};

class SymbolicRun {
 public:
  SymbolicRun(const Plan& plan, const CostModel& cost, int num_steps)
      : plan_(plan), cost_(cost), num_steps_(num_steps), ranks_(plan.devices_size()) {
    for (const Stage& stage : plan.stages()) {
      for (int rank : stage.ranks()) {
        RankSymbols& r = ranks_[rank];
        r.stage = stage.id();
        r.begin = stage.layers().begin();
        r.end = stage.layers().end();
        for (int l = r.begin; l < r.end; ++l) r.weights.push_back(InitialWeight(l));
        r.sums.assign(r.weights.size(), 0);
      }
    }
  }

  absl::StatusOr<std::vector<std::vector<Hash>>> Run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
        for (;;) {
          DPIPE_ASSIGN_OR_RETURN(const bool advanced, Advance(r));
          if (!advanced) break;
          progress = true;
        }
      }
    }
    std::vector<std::vector<Hash>> weights;
    for (RankSymbols& rank : ranks_) {
      if (rank.step < num_steps_) return Missing("a rank waits for ever");
      weights.push_back(rank.weights);
    }
    return weights;
  }

 private:
  bool Active(const Instruction& instruction, int step) const {
    if (step == -1) return instruction.step_offset() == 1;
    return step + 1 < num_steps_ || instruction.step_offset() == 0;
  }

  absl::StatusOr<bool> Advance(int r) {
    RankSymbols& rank = ranks_[r];
    if (rank.step == num_steps_) return false;
    const auto& list = plan_.devices(r).instructions();
    if (rank.next == list.size()) {
      rank.next = rank.sent_end = 0;
      ++rank.step;
      return true;
    }
    const Instruction& instruction = list[rank.next];
    if (Active(instruction, rank.step)) {
      DPIPE_RETURN_IF_ERROR(SendGroup(r));
      DPIPE_ASSIGN_OR_RETURN(const bool done, Execute(r, instruction));
      if (!done) return false;
    }
    ++rank.next;
    return true;
  }

  static bool IsMessage(const Instruction& i) {
    return i.kind() == Instruction::SEND || i.kind() == Instruction::RECV;
  }

  // Messages with nothing in between are posted together, so no RECV keeps a SEND after it waiting.
  absl::Status SendGroup(int r) {
    RankSymbols& rank = ranks_[r];
    const auto& list = plan_.devices(r).instructions();
    for (int k = std::max(rank.next, rank.sent_end); k < list.size(); ++k) {
      if (!Active(list[k], rank.step)) continue;
      if (!IsMessage(list[k])) break;
      rank.sent_end = k + 1;
      if (list[k].kind() != Instruction::SEND) continue;
      DPIPE_RETURN_IF_ERROR(Send(r, list[k], rank.step + list[k].step_offset()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Execute(int r, const Instruction& i) {
    RankSymbols& rank = ranks_[r];
    const int step = rank.step + i.step_offset();
    if (i.kind() == Instruction::RECV) return Receive(r, i, step);
    if (i.kind() == Instruction::REDUCE_GRADS) return Reduce(r, i);
    if (i.kind() == Instruction::SEND) return true;  // SendGroup
    for (int n = i.samples().begin(); n < i.samples().end(); ++n) {
      DPIPE_RETURN_IF_ERROR(ExecuteSample(&rank, i, n, step));
    }
    if (i.kind() == Instruction::OPTIMIZER_STEP) {
      for (size_t l = 0; l < rank.weights.size(); ++l) {
        rank.weights[l] = Mix({kStep, rank.weights[l], rank.sums[l]});
        rank.sums[l] = 0;
      }
    }
    return true;
  }

  absl::Status ExecuteSample(RankSymbols* rank, const Instruction& i, int n, int step) {
    switch (i.kind()) {
      case Instruction::LOAD_BATCH:
        return Load(rank, i, n, step);
      case Instruction::FROZEN_FORWARD:
        return Frozen(rank, i, n, step);
      case Instruction::FORWARD:
        return Forward(rank, i, n, step);
      case Instruction::BACKWARD:
        DPIPE_RETURN_IF_ERROR(InputGrad(rank, i, n, step));
        return Weight(rank, i, n, step);
      case Instruction::INPUT_GRAD:
        return InputGrad(rank, i, n, step);
      case Instruction::WEIGHT_GRAD:
        return Weight(rank, i, n, step);
      default:
        return absl::OkStatus();
    }
  }

  // The frozen outputs that a layer reads, as one symbol.
  absl::StatusOr<Hash> Sources(const RankSymbols& rank, int component, int layer, int n, int step) {
    Hash hash = 0;
    for (int source : cost_.SourcesOf(component, {layer, layer + 1})) {
      const auto found = rank.outputs.find({source, n, step});
      if (found == rank.outputs.end()) return Missing("a frozen output is missing");
      hash = Mix({hash, found->second});
    }
    return hash;
  }

  absl::Status Load(RankSymbols* rank, const Instruction& i, int n, int step) {
    if (i.component() != cost_.backbone()) {
      if (!rank->chains
               .emplace(SampleKey{i.component(), n, step},
                        std::make_pair(0, Loaded(i.component(), n, step)))
               .second) {
        return Missing("loaded twice");
      }
      return absl::OkStatus();
    }
    for (int component :
         cost_.frozen_components()) {  // what the cache holds is what would be computed
      Hash value = Loaded(component, n, step);
      for (int l = 0; l < cost_.num_layers(component); ++l) {
        DPIPE_ASSIGN_OR_RETURN(const Hash sources, Sources(*rank, component, l, n, step));
        value = FrozenLayer(component, l, value, sources);
      }
      rank->outputs[{component, n, step}] = value;
    }
    return absl::OkStatus();
  }

  absl::Status Frozen(RankSymbols* rank, const Instruction& i, int n, int step) {
    const auto found = rank->chains.find({i.component(), n, step});
    if (found == rank->chains.end()) return Missing("a frozen chain is not begun");
    auto& [next, value] = found->second;
    for (int l = i.layers().begin(); l < i.layers().end(); ++l) {
      if (l != next) return Missing("a frozen layer is out of order");
      DPIPE_ASSIGN_OR_RETURN(const Hash sources, Sources(*rank, i.component(), l, n, step));
      value = FrozenLayer(i.component(), l, value, sources);
      ++next;
    }
    if (next == cost_.num_layers(i.component())) {
      if (!computed_.emplace(i.component(), n, step).second) return Missing("computed twice");
      rank->outputs[{i.component(), n, step}] = value;
    }
    return absl::OkStatus();
  }

  absl::Status Forward(RankSymbols* rank, const Instruction& i, int n, int step) {
    Hash value = Mix({kInput, static_cast<Hash>(n), static_cast<Hash>(step)});
    if (rank->begin > 0) {
      const auto found = rank->activations.find({i.micro_batch(), n, step});
      if (found == rank->activations.end()) return Missing("an activation is missing");
      value = found->second;
    }
    Passage& passage = rank->passages[{i.micro_batch(), n, step}];
    if (passage.forward) return Missing("forward twice");
    for (int l = i.layers().begin(); l < i.layers().end(); ++l) {
      passage.inputs[l] = value;
      DPIPE_ASSIGN_OR_RETURN(const Hash sources, Sources(*rank, cost_.backbone(), l, n, step));
      value = ForwardLayer(l, value, rank->weights[l - rank->begin], sources);
    }
    passage.output = value;
    passage.forward = true;
    return absl::OkStatus();
  }

  absl::Status InputGrad(RankSymbols* rank, const Instruction& i, int n, int step) {
    const SampleKey key{i.micro_batch(), n, step};
    Passage& passage = rank->passages[key];
    if (!passage.forward) return Missing("backward before forward");
    for (int l = i.layers().end() - 1; l >= i.layers().begin(); --l) {
      if (l == rank->end - 1) {
        const bool last = l + 1 == cost_.num_layers(cost_.backbone());
        const auto found = rank->gradients.find(key);
        if (!last && found == rank->gradients.end()) return Missing("a gradient is missing");
        passage.gradients[l] = last ? Mix({kGradIn, passage.output}) : found->second;
      }
      if (passage.gradients.count(l) == 0) return Missing("a gradient is out of order");
      passage.gradients[l - 1] = GradLayer(l, passage.gradients[l], passage.inputs[l]);
    }
    return absl::OkStatus();
  }

  absl::Status Weight(RankSymbols* rank, const Instruction& i, int n, int step) {
    Passage& passage = rank->passages[{i.micro_batch(), n, step}];
    for (int l = i.layers().end() - 1; l >= i.layers().begin(); --l) {
      if (passage.gradients.count(l - 1) == 0) return Missing("a weight gradient is too early");
      Hash& sum = rank->sums[l - rank->begin];
      sum = Mix({kSum, sum, WeightGrad(l, passage.gradients[l], passage.inputs[l])});
    }
    return absl::OkStatus();
  }

  using Message = std::vector<std::pair<SampleKey, Hash>>;

  absl::Status Send(int r, const Instruction& i, int step) {
    RankSymbols& rank = ranks_[r];
    Message message;
    for (int n = i.samples().begin(); n < i.samples().end(); ++n) {
      if (i.payload() == Instruction::FROZEN_OUTPUT) {
        const auto found = rank.outputs.find({i.component(), n, step});
        if (found == rank.outputs.end()) return Missing("a frozen output to send is missing");
        message.push_back({{i.component(), n, step}, found->second});
        continue;
      }
      const SampleKey key{i.micro_batch(), n, step};
      const auto found = rank.passages.find(key);
      if (found == rank.passages.end()) return Missing("what is to be sent is missing");
      const bool activation = i.payload() == Instruction::ACTIVATION;
      const auto gradient = found->second.gradients.find(rank.begin - 1);
      if (!activation && gradient == found->second.gradients.end()) {
        return Missing("a gradient to send is missing");
      }
      message.push_back({key, activation ? found->second.output : gradient->second});
    }
    links_[{r, i.peer()}].push_back({i.payload(), std::move(message)});
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Receive(int r, const Instruction& i, int step) {
    auto& queue = links_[{i.peer(), r}];
    if (queue.empty()) return false;
    auto [payload, message] = std::move(queue.front());
    queue.pop_front();
    const int count = i.samples().end() - i.samples().begin();
    if (payload != i.payload() || static_cast<int>(message.size()) != count) {
      return Missing("another message arrives");
    }
    RankSymbols& rank = ranks_[r];
    auto& target = payload == Instruction::FROZEN_OUTPUT ? rank.outputs
                   : payload == Instruction::ACTIVATION  ? rank.activations
                                                         : rank.gradients;
    const int first = payload == Instruction::FROZEN_OUTPUT ? i.component() : i.micro_batch();
    for (int k = 0; k < count; ++k) {
      if (message[k].first != SampleKey{first, i.samples().begin() + k, step}) {
        return Missing("another message arrives");
      }
      target[message[k].first] = message[k].second;
    }
    return true;
  }

  // Waits for the stage's ranks; the last to come computes, the others find the result.
  absl::StatusOr<bool> Reduce(int r, const Instruction& i) {
    RankSymbols& rank = ranks_[r];
    const int ordinal = rank.reductions[{rank.step, i.stage()}];
    const Stage& stage = plan_.stages(i.stage());
    auto& parts = reduce_parts_[{rank.step, i.stage(), ordinal}];
    std::vector<Hash>& mine = parts[r];
    if (mine.empty()) {
      for (int l = i.layers().begin(); l < i.layers().end(); ++l) {
        mine.push_back(rank.sums[l - rank.begin]);
      }
    }
    if (static_cast<int>(parts.size()) < stage.ranks_size()) return false;
    for (size_t k = 0; k < mine.size(); ++k) {
      Hash sum = kReduce;
      for (const auto& [member, part] : parts) {
        if (part.size() != mine.size()) return Missing("ranks reduce different layers");
        sum = Mix({sum, part[k]});
      }
      rank.sums[i.layers().begin() - rank.begin + k] = sum;
    }
    ++rank.reductions[{rank.step, i.stage()}];
    return true;
  }

  const Plan& plan_;
  const CostModel& cost_;
  const int num_steps_;
  std::vector<RankSymbols> ranks_;
  std::map<std::pair<int, int>, std::deque<std::pair<int, Message>>> links_;
  std::map<std::tuple<int, int, int>, std::map<int, std::vector<Hash>>> reduce_parts_;
  std::set<std::tuple<int, int, int>> computed_;
};

}  // namespace

absl::StatusOr<std::vector<std::vector<uint64_t>>> RunSymbolically(const Plan& plan,
                                                                   const CostModel& cost,
                                                                   int num_steps) {
  return SymbolicRun(plan, cost, num_steps).Run();
}

std::vector<std::vector<uint64_t>> ExpectedWeights(const Plan& plan, const CostModel& cost,
                                                   int num_steps) {
  const int num_layers = cost.num_layers(cost.backbone());
  std::vector<Hash> weights;
  for (int l = 0; l < num_layers; ++l) weights.push_back(InitialWeight(l));
  const int num_groups = plan.num_devices() / plan.devices_per_pipeline();
  for (int step = 0; step < num_steps; ++step) {
    // [layer][sample]
    std::vector<std::vector<Hash>> gradient(num_layers, std::vector<Hash>(plan.global_batch()));
    for (int n = 0; n < plan.global_batch(); ++n) {
      std::map<int, Hash> outputs;
      const auto sources = [&](int component, int layer) {
        Hash hash = 0;
        for (int source : cost.SourcesOf(component, {layer, layer + 1})) {
          hash = Mix({hash, outputs[source]});
        }
        return hash;
      };
      for (int component : cost.frozen_components()) {
        Hash value = Loaded(component, n, step);
        for (int l = 0; l < cost.num_layers(component); ++l) {
          value = FrozenLayer(component, l, value, sources(component, l));
        }
        outputs[component] = value;
      }
      std::vector<Hash> inputs;
      Hash value = Mix({kInput, static_cast<Hash>(n), static_cast<Hash>(step)});
      for (int l = 0; l < num_layers; ++l) {
        inputs.push_back(value);
        value = ForwardLayer(l, value, weights[l], sources(cost.backbone(), l));
      }
      Hash arriving = Mix({kGradIn, value});
      for (int l = num_layers - 1; l >= 0; --l) {
        gradient[l][n] = WeightGrad(l, arriving, inputs[l]);
        arriving = GradLayer(l, arriving, inputs[l]);
      }
    }
    for (const Stage& stage : plan.stages()) {
      const int replicas = stage.ranks_size() / num_groups;
      const int size = plan.micro_batch_size() / replicas;
      for (int l = stage.layers().begin(); l < stage.layers().end(); ++l) {
        std::vector<Hash> sums;
        for (int j = 0; j < stage.ranks_size(); ++j) {
          Hash sum = 0;
          for (int m = 0; m < plan.num_micro_batches(); ++m) {
            const int begin =
                (j / replicas * plan.num_micro_batches() + m) * plan.micro_batch_size() +
                j % replicas * size;
            for (int n = begin; n < begin + size; ++n) sum = Mix({kSum, sum, gradient[l][n]});
          }
          sums.push_back(sum);
        }
        Hash total = sums[0];
        if (sums.size() > 1) {
          total = kReduce;
          for (Hash sum : sums) total = Mix({total, sum});
        }
        weights[l] = Mix({kStep, weights[l], total});
      }
    }
  }
  std::vector<std::vector<Hash>> by_rank(plan.devices_size());
  for (const Stage& stage : plan.stages()) {
    for (int rank : stage.ranks()) {
      by_rank[rank].assign(weights.begin() + stage.layers().begin(),
                           weights.begin() + stage.layers().end());
    }
  }
  return by_rank;
}

}  // namespace dpipe
