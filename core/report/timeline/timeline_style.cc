#include "core/report/timeline/timeline_style.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"
#include "core/report/palette.h"
#include "core/report/timeline/trace_index.h"

namespace dpipe::report {
namespace {

std::string MessageClass(const Instruction& message) {
  switch (message.payload()) {
    case Instruction::ACTIVATION:
      return "act";
    case Instruction::GRADIENT:
      return "grad";
    default:
      return "frz";
  }
}

bool IsPass(Instruction::Kind kind) {
  return kind == Instruction::FORWARD || kind == Instruction::RECOMPUTE || IsBackward(kind);
}

const char* PassName(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kBackward:
      return "backward";
    case Pass::kInputGrad:
      return "input gradient";
    case Pass::kWeightGrad:
      return "weight gradient";
    case Pass::kRecompute:
      return "recomputation";
    default:
      return "first lap, no gradients";
  }
}

std::string Swatch(const std::string& css_class) {
  return absl::StrCat("<rect class=\"", css_class, "\" width=\"12\" height=\"12\"/>");
}

std::string HatchSwatch(const std::string& id_prefix) {
  return absl::StrCat("<rect class=\"bub\" fill=\"url(#", id_prefix,
                      "-hatch)\" width=\"12\" height=\"12\"/>");
}

std::string ArrowSwatch(const std::string& css_class) {
  return absl::StrCat("<path class=\"msg ", css_class, "\" d=\"M1 11L8 4\"/><path class=\"head ",
                      css_class, "\" d=\"M11 1L5 3.5L8.5 7z\"/>");
}

}  // namespace

TimelineStyle::TimelineStyle(const Plan& plan) : plan_(plan) {
  int num_frozen = 0;
  for (const PlanComponent& component : plan.components()) {
    frozen_order_.push_back(component.is_backbone() ? -1 : num_frozen++);
  }
  ChooseHues();
}

void TimelineStyle::ChooseHues() {
  std::map<int, std::set<int>> taken;  // hues by rank
  for (const Stage& stage : plan_.stages()) {
    const int first_rank = stage.ranks_size() > 0 ? stage.ranks(0) : -1;
    const bool has_chain = stage.chain() >= 0 && stage.chain() < plan_.chains_size();
    const int first = has_chain ? plan_.chains(stage.chain()).first_stage() : 0;
    const PipelineChain* chain = has_chain ? &plan_.chains(stage.chain()) : nullptr;
    int hue = std::max(0, stage.id() - first) % kNumStageHues;
    // A second-lap stage's counterpart in the first lap is num_stages / 2 before it.
    const Stage* lap =
        chain == nullptr ? nullptr : FindStage(plan_, stage.id() - chain->num_stages() / 2);
    if (lap != nullptr && lap->forward_only() && !stage.forward_only() &&
        lap->chain() == stage.chain()) {
      hues_[stage.id()] = HueOf(lap->id());
      continue;
    }
    std::set<int>& of_rank = taken[first_rank];
    for (int tried = 0; tried < kNumStageHues && of_rank.count(hue) > 0; ++tried) {
      hue = (hue + 1) % kNumStageHues;
    }
    of_rank.insert(hue);
    hues_[stage.id()] = hue;
  }
}

int TimelineStyle::HueOf(int stage) const {
  const auto hue = hues_.find(stage);
  return hue == hues_.end() ? 0 : hue->second;
}

bool TimelineStyle::IsOtherDirection(const Instruction& instruction) const {
  const Instruction::Kind kind = instruction.kind();
  if (!IsPass(kind)) return false;
  const Stage* stage = FindStage(plan_, instruction.stage());
  return stage != nullptr && stage->chain() % 2 == 1;
}

Pass TimelineStyle::PassOf(const Instruction& instruction) const {
  switch (instruction.kind()) {
    case Instruction::FORWARD: {
      const Stage* stage = FindStage(plan_, instruction.stage());
      return stage != nullptr && stage->forward_only() ? Pass::kFirstLap : Pass::kForward;
    }
    case Instruction::RECOMPUTE:
      return Pass::kRecompute;
    case Instruction::BACKWARD:
      return Pass::kBackward;
    case Instruction::INPUT_GRAD:
      return Pass::kInputGrad;
    default:
      return Pass::kWeightGrad;
  }
}

std::string TimelineStyle::ClassOf(const Instruction& instruction) const {
  switch (instruction.kind()) {
    case Instruction::FORWARD:
    case Instruction::RECOMPUTE:
    case Instruction::BACKWARD:
    case Instruction::INPUT_GRAD:
    case Instruction::WEIGHT_GRAD:
      return PassClass(HueOf(instruction.stage()), PassOf(instruction));
    case Instruction::FROZEN_FORWARD: {
      const int component = instruction.component();
      const bool known = component >= 0 && component < static_cast<int>(frozen_order_.size());
      return FrozenClass(known ? frozen_order_[component] : 0, instruction.step_offset() > 0);
    }
    case Instruction::LOAD_BATCH:
      return "load";
    case Instruction::OPTIMIZER_STEP:
      return "opt";
    case Instruction::SEND:
    case Instruction::RECV:
      return MessageClass(instruction);
    case Instruction::GATHER_PARAMS:
    case Instruction::RELEASE_PARAMS:
      return "prm";
    case Instruction::FLUSH:
      return "wait";
    default:
      return "sync";
  }
}

std::vector<std::string> TimelineStyle::NamesOf(const Instruction& instruction) const {
  const std::string name = EventName(plan_, instruction);
  switch (instruction.kind()) {
    case Instruction::FROZEN_FORWARD:
      return {name, name.substr(0, name.find(' '))};
    case Instruction::FORWARD:
    case Instruction::RECOMPUTE:
    case Instruction::BACKWARD:
    case Instruction::INPUT_GRAD:
    case Instruction::WEIGHT_GRAD: {
      // Never a number alone, which could be a micro-batch, a layer or a stage.
      const std::string letter = name.substr(0, 1);
      const std::string with_number = absl::StrCat(letter, instruction.micro_batch());
      if (name == with_number) return {name, letter};
      return {name, with_number, letter};
    }
    default:
      return {name};
  }
}

void TimelineStyle::AppendStages(const std::set<std::string>& used,
                                 std::vector<LegendItem>* legend) const {
  const auto num_backbones = std::count(frozen_order_.begin(), frozen_order_.end(), -1);
  for (const Stage& stage : plan_.stages()) {
    LegendItem item;
    const int first = stage.layers().begin(), last = stage.layers().end() - 1;
    const std::string layers =
        first == last ? absl::StrCat("layer ", first) : absl::StrCat("layers ", first, "–", last);
    const bool named =
        num_backbones > 1 && stage.component() >= 0 && stage.component() < plan_.components_size();
    const std::string of = named ? " of " + plan_.components(stage.component()).name() : "";
    item.text = absl::StrCat("stage ", stage.id(), " (", layers, of, "): ");
    for (const Pass pass : kAllPasses) {
      if (stage.forward_only() != (pass == Pass::kFirstLap)) continue;
      const std::string css_class = PassClass(HueOf(stage.id()), pass);
      if (used.count(css_class) == 0) continue;
      absl::StrAppend(&item.text, item.swatches.empty() ? "" : ", ", PassName(pass));
      item.swatches.push_back(Swatch(css_class));
    }
    if (!item.swatches.empty()) legend->push_back(std::move(item));
  }
}

void TimelineStyle::AppendPasses(const std::set<std::string>& used,
                                 std::vector<LegendItem>* legend) const {
  for (const Pass pass : kAllPasses) {
    LegendItem item;
    item.text = absl::StrCat(PassName(pass), ", hues by stage");
    for (int hue = 0; hue < kNumStageHues; ++hue) {
      const std::string css_class = PassClass(hue, pass);
      if (used.count(css_class) > 0) item.swatches.push_back(Swatch(css_class));
    }
    if (!item.swatches.empty()) legend->push_back(std::move(item));
  }
}

std::vector<LegendItem> TimelineStyle::Legend(const std::set<std::string>& used,
                                              const std::string& id_prefix) const {
  std::vector<LegendItem> legend;
  const auto add = [&](const std::string& css_class, const std::string& swatch,
                       const std::string& text) {
    if (used.count(css_class) > 0) legend.push_back({{swatch}, text});
  };
  // A legend with more stages than hues would be unreadable.
  if (plan_.stages_size() <= kNumStageHues) {
    AppendStages(used, &legend);
  } else {
    AppendPasses(used, &legend);
  }
  add("band",
      "<rect class=\"wait\" width=\"12\" height=\"12\"/><rect class=\"band\" y=\"8\" "
      "width=\"12\" height=\"4\"/>",
      "of the second chain");
  for (int component = 0; component < plan_.components_size(); ++component) {
    if (frozen_order_[component] < 0) continue;
    for (const bool next_step : {false, true}) {
      const std::string css_class = FrozenClass(frozen_order_[component], next_step);
      add(css_class, Swatch(css_class),
          absl::StrCat(plan_.components(component).name(), " (frozen)",
                       next_step ? " for the next step" : ""));
    }
  }
  add("load", Swatch("load"), "loading inputs");
  add("sync", Swatch("sync"), "gradient sync");
  add("prm", Swatch("prm"), "gathering or releasing parameters");
  add("wait", Swatch("wait"), "flush");
  add("opt", Swatch("opt"), "optimizer");
  add("crit", "<g class=\"crit\"><rect x=\"1\" y=\"1\" width=\"10\" height=\"10\"/></g>",
      "critical path");
  add("bub", HatchSwatch(id_prefix), "bubble (idle)");
  add("act", ArrowSwatch("act"), "activations");
  add("grad", ArrowSwatch("grad"), "gradients");
  add("frz", ArrowSwatch("frz"), "frozen outputs");
  return legend;
}

}  // namespace dpipe::report
