#include "core/nn/blocks/lora.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/nn/nodes/shape_nodes.h"

namespace dpipe::nn {
namespace {

// Strips ".weight", which AddLinear appends.
std::string WithoutWeight(const std::string& name) {
  return name.substr(0, name.size() - std::string(".weight").size());
}

}  // namespace

bool LoraSpec::Adapts(const std::string& layer) const {
  if (rank == 0) return false;
  return targets.empty() ||
         std::any_of(targets.begin(), targets.end(),
                     [&layer](const std::string& target) { return IsLoraTarget(layer, target); });
}

bool IsLoraTarget(const std::string& layer, const std::string& target) {
  return layer == target || absl::EndsWith(layer, absl::StrCat(".", target));
}

ValueId AddLinearWithLora(ProgramBuilder* builder, const std::string& name, ValueId x,
                          const LinearSpec& spec, const LoraSpec& lora) {
  if (lora.rank == 0) return AddLinear(builder, name, x, spec);
  DPIPE_CHECK_GT(lora.rank, 0) << name;
  builder->FreezeParameters(true);
  const ValueId base = AddLinear(builder, name, x, spec);
  builder->FreezeParameters(false);
  if (!lora.Adapts(name)) return base;
  LinearSpec down{lora.rank, /*bias=*/false}, up{spec.out, /*bias=*/false};
  up.zero_init = true;
  const ValueId low = AddLinear(builder, WithoutWeight(name + kLoraDown), x, down);
  const std::string up_name = WithoutWeight(name + kLoraUp);
  if (lora.scale != 1) {
    const ValueId added = AddLinear(builder, up_name, low, up);
    return AddSum(builder, base, AddScale(builder, added, lora.scale));
  }
  up.addend = base;
  return AddLinear(builder, up_name, low, up);
}

}  // namespace dpipe::nn
