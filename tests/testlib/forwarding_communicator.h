// Forwards all calls to another communicator. Subclasses override some of them.
#ifndef DPIPE_TESTS_TESTLIB_FORWARDING_COMMUNICATOR_H_
#define DPIPE_TESTS_TESTLIB_FORWARDING_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"

namespace dpipe::testlib {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  Rank rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                    const std::string& what) override {
    return inner_->Send(to, tag, std::move(tensors), what);
  }
  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                        std::vector<TensorSpec> specs,
                                                        const std::string& what) override {
    return inner_->PostRecv(from, tag, std::move(specs), what);
  }
  absl::Status ExpectMessages(absl::Span<const Rank> to, absl::Span<const Rank> from) override {
    return inner_->ExpectMessages(to, from);
  }
  void BeginMessages() override { inner_->BeginMessages(); }
  absl::Status EndMessages() override { return inner_->EndMessages(); }
  bool occupies_device() const override { return inner_->occupies_device(); }
  StartedCollective StartAllReduceSum(absl::Span<const Rank> group, std::vector<Tensor> tensors,
                                      const std::string& what) override {
    return inner_->StartAllReduceSum(group, std::move(tensors), what);
  }
  StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                   std::vector<Tensor> full, const std::string& what) override {
    return inner_->StartAllGather(group, std::move(shards), std::move(full), what);
  }
  StartedCollective StartReduceScatterSum(absl::Span<const Rank> group, std::vector<Tensor> full,
                                          std::vector<Tensor> shards,
                                          const std::string& what) override {
    return inner_->StartReduceScatterSum(group, std::move(full), std::move(shards), what);
  }
  absl::Status AllReduceSum(absl::Span<double> values, const std::string& what) override {
    return inner_->AllReduceSum(values, what);
  }
  void Abort(const absl::Status& status) override { inner_->Abort(status); }

 private:
  const std::unique_ptr<Communicator> inner_;
};

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_FORWARDING_COMMUNICATOR_H_
