// What a FakeDriver records while streams are captured, and how it runs that.
#ifndef DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_CAPTURE_H_
#define DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_CAPTURE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// Pieces of work and what each comes after; immutable once captured.
struct FakeGraph {
  struct Node {
    std::function<void()> run;
    std::vector<int> after;  // earlier nodes
  };
  std::vector<Node> nodes;
};

// A launch of a graph: one node at a time, in any order that the graph allows.
class FakeGraphRun {
 public:
  explicit FakeGraphRun(std::shared_ptr<const FakeGraph> graph)
      : graph_(std::move(graph)), done_(graph_->nodes.size(), false), left_(graph_->nodes.size()) {}

  bool finished() const { return left_ == 0; }
  // Those that could run next.
  std::vector<int> Ready() const;
  void Run(int node);

 private:
  const std::shared_ptr<const FakeGraph> graph_;
  std::vector<bool> done_;
  size_t left_;
};

// The streams that one BeginCapture has drawn in: its own, and those that have waited for an event
// of it. Not thread-safe.
class FakeCapture {
 public:
  explicit FakeCapture(Stream origin)
      : origin_(origin), thread_(std::this_thread::get_id()), tails_({{origin, {}}}) {}

  Stream origin() const { return origin_; }
  bool Has(Stream stream) const { return tails_.count(stream) > 0; }
  bool IsOfThisThread() const { return thread_ == std::this_thread::get_id(); }

  // Keeps the first reason why there will be no graph, and returns it.
  absl::Status Spoil(const std::string& reason);

  void Add(Stream stream, std::function<void()> run);
  // What is enqueued on `stream` so far, for others to wait for.
  const std::vector<int>& Tail(Stream stream) const { return tails_.at(stream); }
  // The stream, which joins if it is not here yet, comes after these nodes.
  void Wait(Stream stream, const std::vector<int>& nodes);

  // FailedPrecondition where it is spoilt, or the first stream does not come after what another
  // one does.
  absl::StatusOr<std::shared_ptr<const FakeGraph>> End();

 private:
  const Stream origin_;
  const std::thread::id thread_;
  std::map<Stream, std::vector<int>> tails_;  // by stream: the nodes that its next one comes after
  FakeGraph graph_;
  absl::Status spoilt_;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_CAPTURE_H_
