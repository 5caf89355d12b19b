#include "core/nn/testing/random_program.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/philox.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/program_builder.h"

namespace dpipe::nn {
namespace {

constexpr int64_t kWidth = 6;

class Generator {
 public:
  explicit Generator(const RandomProgramOptions& options)
      : options_(options),
        random_(options.seed, 0, 0, RandomPurpose::kTest),
        builder_(absl::StrCat("random", options.seed)) {}

  Program Generate() {
    values_ = {builder_.AddInput("x", {Shape({kWidth}), Element::kCompute})};
    for (int layer = 0; layer < options_.num_layers; ++layer) AddLayer(layer);
    int index = 0;
    for (ValueId id : unread_) builder_.MarkOutput(id, absl::StrCat("out", index++));
    return builder_.Build();
  }

 private:
  void AddLayer(int layer) {
    LayerKind kind = LayerKind::kTrainable;
    if (layer < options_.frozen_layers) {
      kind = LayerKind::kFrozen;
    } else if (random_.NextBelow(4) == 0) {
      kind = LayerKind::kFrozenWithGradient;
    }
    const std::string name = absl::StrCat("layer", layer);
    builder_.BeginLayer(name, kind);
    builder_.FreezeParameters(random_.NextBelow(5) == 0);
    const int nodes = 1 + random_.NextBelow(options_.max_nodes_per_layer);
    for (int i = 0; i < nodes; ++i) {
      const ValueId y = AddNode(absl::StrCat(name, ".", i));
      values_.push_back(y);
      unread_.insert(y);
    }
  }

  ValueId Pick() {
    const ValueId id = values_[random_.NextBelow(values_.size())];
    unread_.erase(id);
    return id;
  }

  ValueId AddNode(const std::string& name) {
    switch (random_.NextBelow(7)) {
      case 0:
        return AddActivation(&builder_, Pick(), ops::Activation::kGelu);
      case 1: {
        const ValueId a = Pick();
        return AddSum(&builder_, a, Pick());
      }
      case 2: {
        const ValueId a = Pick(), b = Pick();
        return AddLinear(&builder_, name, AddConcat(&builder_, {a, b, a}), {kWidth});
      }
      case 3:
        return AddLayerNorm(&builder_, name, Pick(), {});
      case 4: {
        LinearSpec spec{kWidth};
        spec.addend = Pick();
        return AddLinear(&builder_, name, Pick(), spec);
      }
      default:
        return AddLinear(&builder_, name, Pick(), {kWidth, random_.NextBelow(2) == 0});
    }
  }

  const RandomProgramOptions options_;
  RandomStream random_;
  ProgramBuilder builder_;
  std::vector<ValueId> values_;
  std::set<ValueId> unread_;
};

}  // namespace

Program RandomProgram(const RandomProgramOptions& options) { return Generator(options).Generate(); }

}  // namespace dpipe::nn
