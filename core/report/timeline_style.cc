#include "core/report/timeline_style.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/report/palette.h"
#include "core/report/trace_index.h"

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
}

std::string TimelineStyle::ClassOf(const Instruction& instruction) const {
  switch (instruction.kind()) {
    case Instruction::FORWARD:
      return PassClass(instruction.stage(), Pass::kForward);
    case Instruction::BACKWARD:
      return PassClass(instruction.stage(), Pass::kBackward);
    case Instruction::INPUT_GRAD:
      return PassClass(instruction.stage(), Pass::kInputGrad);
    case Instruction::WEIGHT_GRAD:
      return PassClass(instruction.stage(), Pass::kWeightGrad);
    case Instruction::FROZEN_FORWARD: {
      const int component = instruction.component();
      const bool known = component >= 0 && component < static_cast<int>(frozen_order_.size());
      return FrozenClass(known ? frozen_order_[component] : 0);
    }
    case Instruction::LOAD_BATCH:
      return "load";
    case Instruction::OPTIMIZER_STEP:
      return "opt";
    case Instruction::SEND:
    case Instruction::RECV:
      return MessageClass(instruction);
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
    case Instruction::BACKWARD:
    case Instruction::INPUT_GRAD:
    case Instruction::WEIGHT_GRAD:
      return {name, absl::StrCat(instruction.micro_batch())};
    default:
      return {name};
  }
}

void TimelineStyle::AppendStages(const std::set<std::string>& used,
                                 std::vector<LegendItem>* legend) const {
  constexpr std::pair<Pass, const char*> kPasses[] = {{Pass::kForward, "forward"},
                                                      {Pass::kBackward, "backward"},
                                                      {Pass::kInputGrad, "input gradient"},
                                                      {Pass::kWeightGrad, "weight gradient"}};
  for (const Stage& stage : plan_.stages()) {
    LegendItem item;
    item.text = absl::StrCat("stage ", stage.id(), " (layers ", stage.layers().begin(), "–",
                             stage.layers().end() - 1, "): ");
    for (const auto& [pass, name] : kPasses) {
      const std::string css_class = PassClass(stage.id(), pass);
      if (used.count(css_class) == 0) continue;
      absl::StrAppend(&item.text, item.swatches.empty() ? "" : ", ", name);
      item.swatches.push_back(Swatch(css_class));
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
  AppendStages(used, &legend);
  for (int component = 0; component < plan_.components_size(); ++component) {
    if (frozen_order_[component] < 0) continue;
    const std::string css_class = FrozenClass(frozen_order_[component]);
    add(css_class, Swatch(css_class), plan_.components(component).name() + " (frozen)");
  }
  add("load", Swatch("load"), "loading inputs");
  add("sync", Swatch("sync"), "gradient sync");
  add("opt", Swatch("opt"), "optimizer");
  add("bub", HatchSwatch(id_prefix), "bubble (idle)");
  add("act", ArrowSwatch("act"), "activations");
  add("grad", ArrowSwatch("grad"), "gradients");
  add("frz", ArrowSwatch("frz"), "frozen outputs");
  return legend;
}

}  // namespace dpipe::report
