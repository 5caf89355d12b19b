#include "core/tensor/cuda/testing/fake_capture.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe::cuda {

std::vector<int> FakeGraphRun::Ready() const {
  std::vector<int> ready;
  for (size_t i = 0; i < done_.size(); ++i) {
    const std::vector<int>& after = graph_->nodes[i].after;
    if (done_[i]) continue;
    if (std::all_of(after.begin(), after.end(), [&](int node) { return done_[node]; })) {
      ready.push_back(static_cast<int>(i));
    }
  }
  return ready;
}

void FakeGraphRun::Run(int node) {
  graph_->nodes[node].run();
  done_[node] = true;
  --left_;
}

absl::Status FakeCapture::Spoil(const std::string& reason) {
  const absl::Status status = absl::FailedPreconditionError(reason);
  if (spoilt_.ok()) spoilt_ = status;
  return status;
}

void FakeCapture::Add(Stream stream, std::function<void()> run) {
  std::vector<int>& tail = tails_.at(stream);
  graph_.nodes.push_back({std::move(run), tail});
  tail = {static_cast<int>(graph_.nodes.size()) - 1};
}

void FakeCapture::Wait(Stream stream, const std::vector<int>& nodes) {
  std::vector<int>& tail = tails_[stream];
  for (int node : nodes) {
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
}

absl::StatusOr<std::shared_ptr<const FakeGraph>> FakeCapture::End() {
  DPIPE_RETURN_IF_ERROR(spoilt_);
  std::vector<bool> joined(graph_.nodes.size(), false);
  for (int node : tails_.at(origin_)) joined[node] = true;
  // A node comes after earlier ones only.
  for (size_t i = joined.size(); i-- > 0;) {
    if (!joined[i]) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the first stream of a capture does not wait for work ", i, " of ", joined.size()));
    }
    for (int node : graph_.nodes[i].after) joined[node] = true;
  }
  return std::make_shared<const FakeGraph>(std::move(graph_));
}

}  // namespace dpipe::cuda
