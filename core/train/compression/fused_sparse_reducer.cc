#include "core/train/compression/fused_sparse_reducer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

namespace dpipe {
namespace {

// Returns |x|. NaN counts as infinity, so that it is sent at once and numbers are totally ordered.
float Magnitude(float x) {
  return std::isnan(x) ? std::numeric_limits<float>::infinity() : std::abs(x);
}

}  // namespace

// Groups are in flight one after another; Wait combines their results.
class FusedSparseReducer::Pending : public PendingCollective {
 public:
  Pending(std::vector<Tensor> gradients, size_t num_ranks, std::vector<Group>* groups)
      : gradients_(std::move(gradients)), num_ranks_(num_ranks), groups_(groups) {}

  void Add(std::unique_ptr<PendingCollective> collective) {
    collectives_.push_back(std::move(collective));
  }

  absl::Status Wait() override {
    for (Tensor& gradient : gradients_) gradient.FillZero();
    for (size_t i = 0; i < collectives_.size(); ++i) {
      DPIPE_RETURN_IF_ERROR(collectives_[i]->Wait());
      Decompress((*groups_)[i], num_ranks_, &gradients_);
    }
    end_ns_ = MonotonicNow();
    return absl::OkStatus();
  }
  Nanos end_ns() const override { return end_ns_; }

 private:
  std::vector<Tensor> gradients_;
  const size_t num_ranks_;
  std::vector<Group>* const groups_;
  std::vector<std::unique_ptr<PendingCollective>> collectives_;
  Nanos end_ns_ = 0;
};

std::vector<FusedSparseReducer::Group> FusedSparseReducer::MakeGroups(
    const std::vector<Tensor>& gradients, size_t num_ranks) const {
  std::vector<int64_t> sizes;
  for (const Tensor& gradient : gradients) sizes.push_back(gradient.num_elements());
  FusionCosts costs = options_.fusion;
  costs.sent_share = options_.kept_share * static_cast<double>(num_ranks);
  std::vector<Group> groups;
  size_t begin = 0;
  for (int end : ChooseFusion(sizes, costs)) {
    Group group;
    group.begin = std::exchange(begin, end);
    group.end = end;
    const int64_t size = std::accumulate(sizes.begin() + group.begin, sizes.begin() + end, 0LL);
    const auto& device = gradients[group.begin].device();
    group.kept =
        std::max<int64_t>(1, std::llround(options_.kept_share * static_cast<double>(size)));
    group.error = Tensor::Zeros(device, {size}, DType::kF32);
    group.own = Tensor::Zeros(device, {2 * group.kept}, DType::kF32);
    group.all =
        Tensor::Zeros(device, {2 * group.kept * static_cast<int64_t>(num_ranks)}, DType::kF32);
    group.places.resize(size);
    groups.push_back(std::move(group));
  }
  return groups;
}

void FusedSparseReducer::Compress(const std::vector<Tensor>& gradients, Group* group) const {
  float* const left = group->error.data<float>();
  float* next = left;
  for (size_t i = group->begin; i < group->end; ++i) {
    for (float x : gradients[i].span<float>()) *next++ += x;
  }
  // By magnitude, ties by position: the same choice in every run.
  std::vector<int32_t>& places = group->places;
  std::iota(places.begin(), places.end(), 0);
  const auto larger = [left](int32_t a, int32_t b) {
    const float x = Magnitude(left[a]), y = Magnitude(left[b]);
    return x != y ? x > y : a < b;
  };
  std::nth_element(places.begin(), places.begin() + (group->kept - 1), places.end(), larger);
  std::sort(places.begin(), places.begin() + group->kept);
  float* const values = group->own.data<float>();
  for (int64_t k = 0; k < group->kept; ++k) values[k] = std::exchange(left[places[k]], 0.0f);
  std::memcpy(values + group->kept, places.data(), group->kept * sizeof(int32_t));
}

void FusedSparseReducer::Decompress(const Group& group, size_t num_ranks,
                                    std::vector<Tensor>* gradients) {
  std::vector<int32_t> places(group.kept);
  for (size_t r = 0; r < num_ranks; ++r) {
    const float* values = group.all.data<float>() + 2 * group.kept * static_cast<int64_t>(r);
    std::memcpy(places.data(), values + group.kept, group.kept * sizeof(int32_t));
    size_t i = group.begin;
    int64_t first = 0;  // index of gradient i's first number within the group
    for (int64_t k = 0; k < group.kept; ++k) {  // positions are increasing
      while (places[k] >= first + (*gradients)[i].num_elements()) {
        first += (*gradients)[i++].num_elements();
      }
      (*gradients)[i].data<float>()[places[k] - first] += values[k];
    }
  }
}

Communicator::StartedCollective FusedSparseReducer::Start(absl::Span<const Rank> group,
                                                          std::vector<Tensor> gradients,
                                                          const std::string& what) {
  auto [at, is_new] = groups_.try_emplace(what);
  std::vector<Group>& groups = at->second;
  if (is_new) groups = MakeGroups(gradients, group.size());
  auto pending = std::make_unique<Pending>(gradients, group.size(), &groups);
  for (Group& fused : groups) {
    Compress(gradients, &fused);
    DPIPE_ASSIGN_OR_RETURN(auto collective,
                           communicator_->StartAllGather(group, {fused.own}, {fused.all}, what));
    pending->Add(std::move(collective));
  }
  return std::unique_ptr<PendingCollective>(std::move(pending));
}

}  // namespace dpipe
