#include "core/profile/gpu_account.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dpipe {
namespace {

struct ClassOfOperation {
  absl::string_view operation;  // prefix of its name
  absl::string_view work_class;
};

// The first match counts, so longer prefixes come first.
constexpr ClassOfOperation kClasses[] = {
    {"conv2d's input gradient", "convolution, input gradient"},
    {"conv2d's weight gradient", "convolution, weight gradient"},
    {"conv2d", "convolution, forward"},
    {"linear's input gradient", "products, input gradient"},
    {"linear's weight gradient", "products, weight gradient"},
    {"linear", "products, forward"},
    {"attention's input gradient", "attention, gradient"},
    {"attention", "attention, forward"},
    {"group_norm's", "group norm, gradients"},
    {"group_norm", "group norm, forward"},
    {"layer_norm's", "layer norm, gradients"},
    {"layer_norm", "layer norm, forward"},
    {"rms_norm's", "rms norm, gradients"},
    {"rms_norm", "rms norm, forward"},
    {"adamw", "optimizer"},
    {"sums_of_squares", "optimizer"},
    {"axpby", "optimizer"},
    {"bias's gradient", "gradients of biases"},
    {"bias and addend", "biases and addends"},
    {"layout of", "copies and layouts"},
    {"convert", "copies and layouts"},
    {"concat", "copies and layouts"},
    {"split", "copies and layouts"},
    {"slice", "copies and layouts"},
    {"patchify", "copies and layouts"},
    {"unpatchify", "copies and layouts"},
    {"upsample", "copies and layouts"},
    {"average_pool", "copies and layouts"},
    {"resize_bilinear", "copies and layouts"},
    {"", "element-wise"},
};

constexpr int kMaxGaps = 8;  // in the text

// Collects works by key, and returns them by decreasing time.
template <typename Key>
class Works {
 public:
  GpuWork& at(const Key& key) { return works_[key]; }
  template <typename List>
  void MoveTo(List* list) {
    std::vector<GpuWork> sorted;
    for (auto& [key, work] : works_) sorted.push_back(std::move(work));
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const GpuWork& a, const GpuWork& b) { return a.busy_ns() > b.busy_ns(); });
    for (GpuWork& work : sorted) *list->Add() = std::move(work);
  }

 private:
  std::map<Key, GpuWork> works_;
};

std::string NameOf(const GpuActivity& activity) {
  switch (activity.kind) {
    case GpuActivity::Kind::kKernel:
      return activity.name;
    case GpuActivity::Kind::kCopy:
      return "copy";
    case GpuActivity::Kind::kFill:
      return "fill";
  }
  return "";
}

// Collects the gaps between works, by the names of the operations before and after them.
class Gaps {
 public:
  void Add(const std::string& before, const std::string& after, Nanos idle_ns) {
    GpuGap& gap = gaps_[{before, after}];
    gap.set_before(before);
    gap.set_after(after);
    gap.set_count(gap.count() + 1);
    gap.set_idle_ns(gap.idle_ns() + idle_ns);
    gap.set_longest_ns(std::max(gap.longest_ns(), idle_ns));
  }
  void MoveTo(GpuAccount* account) {
    std::vector<GpuGap> sorted;
    for (auto& [key, gap] : gaps_) sorted.push_back(std::move(gap));
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const GpuGap& a, const GpuGap& b) { return a.idle_ns() > b.idle_ns(); });
    for (GpuGap& gap : sorted) *account->add_gaps() = std::move(gap);
  }

 private:
  std::map<std::pair<std::string, std::string>, GpuGap> gaps_;
};

// Sets the span from the first begin to the last end, its idle and overlapped time, and its gaps.
void SetSpan(const GpuRecording& recording, GpuAccount* account) {
  std::vector<const GpuActivity*> sorted;
  Nanos sum = 0;
  for (const GpuActivity& activity : recording.activities) {
    sorted.push_back(&activity);
    sum += activity.end_ns - activity.begin_ns;
  }
  if (sorted.empty()) return;
  std::stable_sort(sorted.begin(), sorted.end(), [](const GpuActivity* a, const GpuActivity* b) {
    return std::make_pair(a->begin_ns, a->end_ns) < std::make_pair(b->begin_ns, b->end_ns);
  });
  const auto name = [&](const GpuActivity& activity) {
    return activity.operation >= 0 ? recording.operations[activity.operation].name : "";
  };
  Gaps gaps;
  Nanos idle = 0;
  const GpuActivity* last = sorted[0];  // the one that ends last so far
  for (const GpuActivity* activity : sorted) {
    const Nanos gap = activity->begin_ns - last->end_ns;
    if (gap > 0) {
      idle += gap;
      gaps.Add(name(*last), name(*activity), gap);
    }
    if (activity->end_ns > last->end_ns) last = activity;
  }
  gaps.MoveTo(account);
  account->set_span_ns(last->end_ns - sorted[0]->begin_ns);
  account->set_idle_ns(idle);
  account->set_overlapped_ns(sum - (account->span_ns() - idle));
}

// Returns the rate that bounds the work, "  412.1 TFLOP/s" or "  2.31 TB/s", or spaces if unknown.
std::string RateText(const GpuWork& work, const GpuCeilings& ceilings) {
  const double seconds = 1e-9 * static_cast<double>(work.busy_ns());
  if (seconds <= 0 || (work.flops() == 0 && work.bytes() == 0)) return std::string(13, ' ');
  if (work.flops() / ceilings.flops_per_s() >= work.bytes() / ceilings.bytes_per_s()) {
    return absl::StrFormat("%6.1f TFLOP/s", 1e-12 * work.flops() / seconds);
  }
  return absl::StrFormat("%6.2f TB/s   ", 1e-12 * work.bytes() / seconds);
}

std::string Line(const GpuWork& work, const GpuAccount& account, const std::string& text) {
  const double ms_per_step = 1e-6 / account.steps();
  return absl::StrFormat("%8.2f %5.1f%% %6.0f %s %7.2f  %s\n", ms_per_step * work.busy_ns(),
                         100.0 * work.busy_ns() / std::max<int64_t>(1, account.span_ns()),
                         static_cast<double>(work.count()) / account.steps(),
                         RateText(work, account.ceilings()), ms_per_step * work.bound_ns(), text);
}

// Returns the first `max_size` characters.
std::string Cut(std::string text, size_t max_size) {
  if (text.size() > max_size) text.resize(max_size);
  return text;
}

}  // namespace

std::string GpuWorkClass(absl::string_view operation, GpuActivity::Kind kind) {
  if (operation.empty()) return kind == GpuActivity::Kind::kKernel ? "other" : "copies and layouts";
  for (const ClassOfOperation& one : kClasses) {
    if (absl::StartsWith(operation, one.operation)) return std::string(one.work_class);
  }
  return "other";
}

GpuAccount MakeGpuAccount(const GpuRecording& recording, const GpuCeilings& ceilings, int steps,
                          const std::string& device) {
  GpuAccount account;
  account.set_device(device);
  *account.mutable_ceilings() = ceilings;
  account.set_steps(steps);
  account.set_dropped_records(recording.dropped);
  SetSpan(recording, &account);

  Works<std::string> classes;
  Works<int> operations;
  Works<std::pair<std::string, std::string>> kernels;
  for (const GpuActivity& activity : recording.activities) {
    const bool has_operation = activity.operation >= 0;
    const std::string operation =
        has_operation ? recording.operations[activity.operation].name : "";
    const std::string work_class = GpuWorkClass(operation, activity.kind);
    const std::string name = NameOf(activity);
    GpuWork& kernel = kernels.at({name, operation});
    kernel.set_name(name);
    kernel.set_detail(operation);
    kernel.set_work_class(work_class);
    kernel.set_count(kernel.count() + 1);
    for (GpuWork* work : {&kernel, &classes.at(work_class), &operations.at(activity.operation)}) {
      work->set_busy_ns(work->busy_ns() + activity.end_ns - activity.begin_ns);
    }
    classes.at(work_class).set_name(work_class);
    operations.at(activity.operation).set_work_class(work_class);
  }
  for (size_t i = 0; i < recording.operations.size(); ++i) {
    const GpuOperation& from = recording.operations[i];
    const std::string work_class = GpuWorkClass(from.name, GpuActivity::Kind::kKernel);
    GpuWork& operation = operations.at(static_cast<int>(i));
    operation.set_name(from.name);
    operation.set_detail(from.detail);
    operation.set_work_class(work_class);
    classes.at(work_class).set_name(work_class);
    for (GpuWork* work : {&operation, &classes.at(work_class)}) {
      work->set_count(work->count() + from.calls);
      work->set_flops(work->flops() + from.flops);
      work->set_bytes(work->bytes() + from.bytes);
      work->set_bound_ns(work->bound_ns() + static_cast<int64_t>(from.bound_ns));
    }
  }
  classes.MoveTo(account.mutable_classes());
  operations.MoveTo(account.mutable_operations());
  kernels.MoveTo(account.mutable_kernels());
  return account;
}

std::string GpuAccountText(const GpuAccount& account, int max_operations, int max_kernels) {
  const double ms_per_step = 1e-6 / account.steps();
  std::string text = absl::StrFormat(
      "GPU time per step, mean of %d: %.2f ms, of which idle %.2f, overlapped %.2f; ceilings %.0f "
      "TFLOP/s, %.2f TB/s%s\n",
      account.steps(), ms_per_step * account.span_ns(), ms_per_step * account.idle_ns(),
      ms_per_step * account.overlapped_ns(), 1e-12 * account.ceilings().flops_per_s(),
      1e-12 * account.ceilings().bytes_per_s(),
      account.dropped_records() > 0
          ? absl::StrCat("; ", account.dropped_records(), " records are LOST")
          : "");
  const std::string head = "      ms  share  count          rate   bound  ";
  absl::StrAppend(&text, head, "class\n");
  int64_t bound_ns = 0;
  for (const GpuWork& work : account.classes()) {
    absl::StrAppend(&text, Line(work, account, work.name()));
    bound_ns += work.bound_ns();
  }
  absl::StrAppend(&text, absl::StrFormat("%44.2f  all bounds\n", ms_per_step * bound_ns));
  absl::StrAppend(&text, "    idle  count  longest  between\n");
  for (int i = 0; i < std::min(kMaxGaps, account.gaps_size()); ++i) {
    const GpuGap& gap = account.gaps(i);
    absl::StrAppend(
        &text,
        absl::StrFormat("%8.2f %6.0f %8.2f  %s | %s\n", ms_per_step * gap.idle_ns(),
                        static_cast<double>(gap.count()) / account.steps(), 1e-6 * gap.longest_ns(),
                        Cut(gap.before(), 40), Cut(gap.after(), 40)));
  }
  absl::StrAppend(&text, head, "operation\n");
  for (int i = 0; i < std::min(max_operations, account.operations_size()); ++i) {
    const GpuWork& work = account.operations(i);
    absl::StrAppend(&text,
                    Line(work, account, Cut(absl::StrCat(work.name(), " ", work.detail()), 64)));
  }
  absl::StrAppend(&text, "      ms  share  count  kernel, operation\n");
  for (int i = 0; i < std::min(max_kernels, account.kernels_size()); ++i) {
    const GpuWork& work = account.kernels(i);
    absl::StrAppend(
        &text, absl::StrFormat("%8.2f %5.1f%% %6.0f  %s | %s\n", ms_per_step * work.busy_ns(),
                               100.0 * work.busy_ns() / std::max<int64_t>(1, account.span_ns()),
                               static_cast<double>(work.count()) / account.steps(),
                               Cut(work.name(), 58), Cut(work.detail(), 26)));
  }
  return text;
}

}  // namespace dpipe
