#include "core/planner/cuts/cut_neighbours.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/schedule/testing/named_schedule.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using Stages = CutNeighbours::Stages;
// By backbone: the ends of all stages but the last.
using Boundaries = std::vector<std::vector<int>>;

constexpr int kMicroBatches = 4;
constexpr int kAll = 1 << 30;
constexpr Nanos kNever = Nanos{1} << 60;
constexpr int64_t kPlenty = int64_t{1} << 40;  // bytes

Boundaries BoundariesOf(const Stages& stages) {
  Boundaries boundaries;
  for (const std::vector<LayerRange>& of : stages) {
    boundaries.emplace_back();
    for (size_t k = 1; k < of.size(); ++k) boundaries.back().push_back(of[k].begin);
  }
  return boundaries;
}

// A random cut of random layers under a schedule, on devices whose memory it nearly fills.
class Instance {
 public:
  Instance(const std::string& schedule, int devices, int backbones, RandomStream& stream)
      : profile_(Profile(backbones, stream)), shape_(Shape(schedule, devices)) {
    cut_.schedule =
        std::make_shared<const Schedule>(NamedSchedule(schedule, devices, kMicroBatches));
    cut_.replicas.assign(devices, 1);
    cut_.recompute.assign(devices, false);
    for (int d = 0; d < devices; ++d) cut_.seating.push_back(d);
    SetMemory(kPlenty);
    cut_.stages = RandomStages(stream);
    SetMemory(kPlenty);
    int64_t used = 0;
    for (int d = 0; d < devices; ++d) {
      used = std::max(used, kPlenty - *costs_->FreeBytes(d, cut_.stages));
    }
    SetMemory(used + stream.NextBelow(static_cast<uint32_t>(used / 4)));
  }

  const PipelineCut& cut() const { return cut_; }
  const CutCosts& costs() const { return *costs_; }

  // Returns nullopt if a stage would have no layer.
  std::unique_ptr<Stages> StagesOf(const Boundaries& boundaries) const {
    auto stages = std::make_unique<Stages>(boundaries.size());
    for (size_t b = 0; b < boundaries.size(); ++b) {
      int begin = 0;
      for (size_t k = 0; k <= boundaries[b].size(); ++k) {
        const int end = k < boundaries[b].size() ? boundaries[b][k] : num_layers_[b];
        if (end <= begin) return nullptr;
        (*stages)[b].push_back({begin, end});
        begin = end;
      }
    }
    return stages;
  }

  bool Fits(const Stages& stages) const {
    for (int d = 0; d < cut_.schedule->num_devices(); ++d) {
      if (*costs_->FreeBytes(d, stages) < 0) return false;
    }
    return true;
  }

  // Returns the time of all passes, by device, with such stages.
  std::vector<Nanos> WorkOf(const CutNeighbours& neighbours, const Stages& stages) const {
    const Schedule& schedule = *cut_.schedule;
    std::vector<Nanos> work(schedule.num_devices(), 0);
    for (size_t c = 0; c < schedule.chains().size(); ++c) {
      const ScheduleChain& chain = schedule.chains()[c];
      const int first = schedule.FirstStageOf(static_cast<int>(c));
      for (size_t k = 0; k < chain.devices.size(); ++k) {
        const PassCosts costs = neighbours.CostsOf(stages, first + static_cast<int>(k));
        work[chain.devices[k]] +=
            chain.num_micro_batches * (costs.forward + costs.input_grad + costs.weight_grad);
      }
    }
    return work;
  }

 private:
  Stages RandomStages(RandomStream& stream) {
    Boundaries boundaries;
    for (int backbone : cost_->backbones()) {
      // A chain has the index of its backbone, or belongs to the only backbone.
      const ScheduleChain& chain = cut_.schedule->chains()[boundaries.size()];
      const int num_layers = num_layers_.emplace_back(cost_->num_layers(backbone));
      std::vector<int>& of = boundaries.emplace_back();
      while (of.size() + 1 < chain.devices.size()) {
        const int at = 1 + static_cast<int>(stream.NextBelow(num_layers - 1));
        if (std::count(of.begin(), of.end(), at) == 0) of.push_back(at);
      }
      std::sort(of.begin(), of.end());
    }
    return *StagesOf(boundaries);
  }

  static ModelProfile Profile(int backbones, RandomStream& stream) {
    RandomProfileOptions options;
    options.min_layers = 5;
    options.max_layers = 9;
    options.num_backbones = backbones;
    options.max_frozen_components = 0;
    ModelProfile profile = RandomProfile(stream, options);
    profile.clear_self_conditioning_probability();  // its times are rounded
    return profile;
  }

  static PipelineShape Shape(const std::string& schedule, int devices) {
    PipelineShape shape;
    shape.schedule = schedule;
    shape.num_devices = shape.devices_per_pipeline = shape.num_stages = devices;
    shape.num_micro_batches = shape.global_batch = kMicroBatches;
    return shape;
  }

  void SetMemory(int64_t bytes) {
    ClusterSpec cluster = IdealCluster(shape_.num_devices);
    cluster.set_memory_bytes_per_device(bytes);
    costs_.reset();
    cost_ = std::make_unique<CostModel>(*CostModel::Create(profile_, cluster));
    std::vector<std::shared_ptr<const BackboneTables>> tables;
    std::vector<StageCostsOptions> options;
    for (int backbone : cost_->backbones()) {
      tables.push_back(std::make_shared<BackboneTables>(*cost_, backbone));
      StageCostsOptions& of_backbone = options.emplace_back();
      of_backbone.devices_per_pipeline = shape_.num_devices;
      of_backbone.backbone = static_cast<int>(options.size()) - 1;
    }
    costs_ = std::make_unique<CutCosts>(*cost_, tables, options, shape_, cut_, *cut_.schedule);
  }

  const ModelProfile profile_;
  const PipelineShape shape_;
  PipelineCut cut_;
  std::vector<int> num_layers_;
  std::unique_ptr<CostModel> cost_;
  std::unique_ptr<CutCosts> costs_;
};

// The expected result of Below, shift by shift.
class BruteForce {
 public:
  struct Found {
    Stages stages;
    Nanos last_ns = 0;
  };

  BruteForce(const Instance& instance, const CutNeighbours& neighbours,
             const std::vector<Nanos>& finish_ns, Nanos limit_ns)
      : instance_(instance),
        neighbours_(neighbours),
        finish_ns_(finish_ns),
        limit_ns_(limit_ns),
        work_(instance.WorkOf(neighbours, instance.cut().stages)),
        boundaries_(BoundariesOf(instance.cut().stages)) {
    for (size_t b = 0; b < boundaries_.size(); ++b) {
      for (size_t k = 0; k < boundaries_[b].size(); ++k) {
        for (int step : {-3, -2, -1, 1, 2, 3}) {
          AddShift({{b, k, step}});
          if (k + 1 < boundaries_[b].size()) AddShift({{b, k, step}, {b, k + 1, step}});
        }
      }
    }
    for (size_t i = 0; i < shifts_.size(); ++i) {
      Add(shifts_[i].stages, shifts_[i].more_ns, &singles);
      for (size_t j = i + 1; j < shifts_.size(); ++j) AddPair(shifts_[i], shifts_[j]);
    }
  }

  std::vector<Found> singles, pairs;
  int num_too_large = 0, num_inexact = 0;

 private:
  struct Step {  // moves one boundary
    size_t backbone, boundary;
    int layers;
  };
  struct Shift {
    std::vector<Step> steps;
    Stages stages;
    std::vector<Nanos> more_ns;  // added work, by device
  };

  std::unique_ptr<Stages> Moved(std::vector<Step> steps, const std::vector<Step>& others) const {
    Boundaries boundaries = boundaries_;
    steps.insert(steps.end(), others.begin(), others.end());
    for (const Step& step : steps) boundaries[step.backbone][step.boundary] += step.layers;
    return instance_.StagesOf(boundaries);
  }

  std::vector<Nanos> MoreOf(const Stages& stages) const {
    std::vector<Nanos> more = instance_.WorkOf(neighbours_, stages);
    for (size_t d = 0; d < more.size(); ++d) more[d] -= work_[d];
    return more;
  }

  void AddShift(const std::vector<Step>& steps) {
    const auto stages = Moved(steps, {});
    if (stages != nullptr) shifts_.push_back({steps, *stages, MoreOf(*stages)});
  }

  static bool ShareABoundary(const Shift& one, const Shift& other) {
    for (const Step& a : one.steps) {
      for (const Step& b : other.steps) {
        if (a.backbone == b.backbone && a.boundary == b.boundary) return true;
      }
    }
    return false;
  }

  void AddPair(const Shift& one, const Shift& other) {
    const auto stages = Moved(one.steps, other.steps);
    if (stages == nullptr || *stages == instance_.cut().stages) return;
    const std::vector<Nanos> exact = MoreOf(*stages);
    std::vector<Nanos> sum = one.more_ns;
    for (size_t d = 0; d < sum.size(); ++d) sum[d] += other.more_ns[d];
    const bool share = ShareABoundary(one, other);
    num_inexact += sum != exact;
    EXPECT_TRUE(share || sum == exact);
    Add(*stages, share ? sum : exact, &pairs);
  }

  void Add(const Stages& stages, const std::vector<Nanos>& more, std::vector<Found>* found) {
    Nanos last = 0;
    for (size_t d = 0; d < more.size(); ++d) last = std::max(last, finish_ns_[d] + more[d]);
    if (last >= limit_ns_) return;
    if (instance_.Fits(stages)) {
      found->push_back({stages, last});
    } else {
      ++num_too_large;
    }
  }

  const Instance& instance_;
  const CutNeighbours& neighbours_;
  const std::vector<Nanos> finish_ns_;
  const Nanos limit_ns_;
  const std::vector<Nanos> work_;
  const Boundaries boundaries_;
  std::vector<Shift> shifts_;
};

// Returns how often each cut is found.
class Counts {
 public:
  void Add(const std::vector<BruteForce::Found>& found, Nanos last_ns = kNever) {
    for (const BruteForce::Found& one : found) {
      if (one.last_ns <= last_ns) ++counts_[BoundariesOf(one.stages)];
    }
  }
  void Add(const std::vector<Stages>& found) {
    for (const Stages& stages : found) ++counts_[BoundariesOf(stages)];
  }
  bool operator==(const Counts& other) const { return counts_ == other.counts_; }
  bool Holds(const Counts& other) const {
    return std::all_of(other.counts_.begin(), other.counts_.end(), [this](const auto& count) {
      const auto own = counts_.find(count.first);
      return own != counts_.end() && own->second >= count.second;
    });
  }

 private:
  std::map<Boundaries, int> counts_;
};

struct Case {
  const char* schedule;
  int devices, backbones;
};

TEST(CutNeighboursTest, FindsWhatBruteForceDoes) {
  RandomStream stream(81, 0, 0, RandomPurpose::kTest);
  const Case cases[] = {{"1f1b", 3, 1}, {"zb-v", 2, 1}, {"chimera", 4, 1}, {"cascaded-zb", 3, 2}};
  size_t singles = 0, pairs = 0;
  int too_large = 0, inexact = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const Case& of = cases[trial % 4];
    SCOPED_TRACE(std::to_string(trial) + " " + of.schedule);
    const Instance instance(of.schedule, of.devices, of.backbones, stream);
    const CutNeighbours neighbours(instance.costs(), instance.cut());
    std::vector<Nanos> finish = neighbours.Work();
    ASSERT_EQ(finish, instance.WorkOf(neighbours, instance.cut().stages));
    for (Nanos& finish_ns : finish) finish_ns += stream.NextBelow(1000);
    const Nanos last = *std::max_element(finish.begin(), finish.end());
    const Nanos limit = last + stream.NextBelow(static_cast<uint32_t>(last / 4));
    BruteForce expected(instance, neighbours, finish, limit);

    Counts all, found;
    all.Add(expected.singles);
    all.Add(expected.pairs);
    found.Add(neighbours.Below(limit, finish, kAll));
    EXPECT_TRUE(found == all);

    // Single shifts only, whose finish times are exact: all of them, the first to finish first.
    Nanos before = 0;
    const std::vector<Stages> alone = neighbours.Below(limit, finish, 0);
    Counts single, found_single;
    single.Add(expected.singles);
    found_single.Add(alone);
    EXPECT_TRUE(found_single == single);
    const std::vector<Nanos> now = neighbours.Work();
    for (const Stages& stages : alone) {
      const std::vector<Nanos> work = instance.WorkOf(neighbours, stages);
      Nanos done = 0;
      for (size_t d = 0; d < work.size(); ++d) done = std::max(done, finish[d] + work[d] - now[d]);
      EXPECT_LE(before, done);
      EXPECT_LT(done, limit);
      before = done;
    }

    // Half of the pairs: those that finish first. Any of those that finish at the same time.
    std::vector<BruteForce::Found>& sorted = expected.pairs;
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.last_ns < b.last_ns; });
    const size_t half = sorted.size() / 2;
    const std::vector<Stages> first = neighbours.Below(limit, finish, static_cast<int>(half));
    EXPECT_EQ(first.size(), expected.singles.size() + half);
    if (half > 0) {
      Counts least, most, found_first;
      least.Add(expected.singles);
      least.Add(sorted, sorted[half - 1].last_ns - 1);
      most.Add(expected.singles);
      most.Add(sorted, sorted[half - 1].last_ns);
      found_first.Add(first);
      EXPECT_TRUE(found_first.Holds(least));
      EXPECT_TRUE(most.Holds(found_first));
    }
    singles += expected.singles.size();
    pairs += expected.pairs.size();
    too_large += expected.num_too_large;
    inexact += expected.num_inexact;
  }
  EXPECT_GT(singles, 100);
  EXPECT_GT(pairs, 1000);
  EXPECT_GT(too_large, 100);
  EXPECT_GT(inexact, 100);
}

}  // namespace
}  // namespace dpipe
