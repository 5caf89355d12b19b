#include "tools/planning/profile_text.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/time.h"
#include "core/report/table.h"

namespace dpipe::tools {
namespace {

struct Sums {
  Nanos forward_ns = 0, input_grad_ns = 0, weight_grad_ns = 0;
  Nanos total() const { return forward_ns + input_grad_ns + weight_grad_ns; }
};

// Over the layers, of the timing number `index`.
Sums SumsOf(const ComponentProfile& component, int index) {
  Sums sums;
  for (const LayerProfile& layer : component.layers()) {
    const LayerTiming& timing = layer.timings(index);
    sums.forward_ns += timing.forward_ns();
    sums.input_grad_ns += timing.input_grad_ns();
    sums.weight_grad_ns += timing.weight_grad_ns();
  }
  return sums;
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseLocalBatches(absl::string_view text) {
  std::vector<int> batches;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    int batch = 0;
    if (!absl::SimpleAtoi(part, &batch) || batch < 1 ||
        (!batches.empty() && batch <= batches.back())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--local_batches=", text, " must be positive and increasing numbers, such as 1,2,4"));
    }
    batches.push_back(batch);
  }
  return batches;
}

std::string ProfileText(const ModelProfile& profile) {
  report::Table table(
      {"component", "layers", "batch", "forward", "input grad", "weight grad", "samples/s"});
  for (const ComponentProfile& component : profile.components()) {
    const int num_timings = component.layers_size() == 0 ? 0 : component.layers(0).timings_size();
    for (int i = 0; i < num_timings; ++i) {
      const int batch = component.layers(0).timings(i).local_batch();
      const Sums sums = SumsOf(component, i);
      const bool backward = sums.input_grad_ns + sums.weight_grad_ns > 0;
      table.AddRow({component.name(), absl::StrCat(component.layers_size()), absl::StrCat(batch),
                    FormatDuration(sums.forward_ns),
                    backward ? FormatDuration(sums.input_grad_ns) : "-",
                    backward ? FormatDuration(sums.weight_grad_ns) : "-",
                    absl::StrFormat("%.1f", batch * 1e9 / sums.total())});
    }
  }
  return absl::StrCat(table.ToText(), "Device:   ", profile.device(), ", ", profile.dtype(),
                      "\nMeasured: ", profile.provenance());
}

}  // namespace dpipe::tools
