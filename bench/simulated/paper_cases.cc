#include "bench/simulated/paper_cases.h"

#include <algorithm>

#include "baselines/registry.h"

namespace dpipe::bench {
namespace {

constexpr int kOneNode = 8;

std::vector<GridEntry> Named(const std::vector<std::string>& names) {
  std::vector<GridEntry> contenders;
  for (const std::string& name : names) contenders.push_back({name, name});
  return contenders;
}

GridCase MapCase(const std::string& chapter, const std::string& model, const MapCluster& cluster,
                 int device_batch) {
  GridCase c;
  c.chapter = chapter;
  c.model = model;
  c.cluster = cluster.name;
  c.num_devices = cluster.num_devices;
  c.nccl = true;
  c.global_batch = device_batch * cluster.num_devices;
  c.contenders = MapContenders();
  return c;
}

}  // namespace

std::vector<ModelSetup> DefaultSetups() {
  return {{"stable_diffusion_v2_1_512", "a100", {4, 16, 32}},
          {"stable_diffusion_v1_5_512", "a100", {4, 16, 32}},
          {"controlnet_v1_0_512", "a100", {4, 16, 32}},
          {"cdm_lsun_256", "a100", {2, 4, 8}},
          {"cdm_imagenet_256", "a100", {2, 4, 8}},
          {"sdxl_1024", "h100", {2, 4, 8}},
          {"flux_1024", "h100", {2, 4, 8}}};
}

std::vector<GridEntry> DefaultContenders() {
  return Named({"data_parallel", "zero1", "zero3", "gpipe", "1f1b", "spp", "interleaved", "zb-v",
                "chimera", "diffusionpipe", "opendiffusionpipe", "offline_cache"});
}

std::vector<GridEntry> NamedContenders() { return Named(ExactStrategyNames()); }

std::vector<GridEntry> AblationContenders() {
  return {{"no filling", "diffusionpipe,frozen=first"},
          {"no partial batches", "diffusionpipe,partial_batch=false"},
          {"not across steps", "diffusionpipe,cross_iteration=false"},
          {"even samples", "diffusionpipe,even_samples=true"},
          {"frozen work on the first stage", "diffusionpipe,frozen=first_stage"},
          {"offline cache", "diffusionpipe,frozen=cached"}};
}

std::vector<GridCase> ComparisonCases(const std::vector<ModelSetup>& setups,
                                      const std::vector<int>& devices,
                                      const std::vector<GridEntry>& contenders, bool ablations) {
  std::vector<GridCase> cases;
  for (const ModelSetup& setup : setups) {
    for (int num_devices : devices) {
      for (size_t b = 0; b < setup.device_batches.size(); ++b) {
        const bool outermost = b == 0 || b + 1 == setup.device_batches.size();
        if (num_devices > kOneNode && !outermost) continue;
        GridCase c;
        c.model = setup.model;
        c.device = setup.device;
        c.num_devices = num_devices;
        c.global_batch = setup.device_batches[b] * num_devices;
        c.contenders = contenders;
        if (ablations && num_devices == kOneNode) c.ablations = AblationContenders();
        cases.push_back(std::move(c));
      }
    }
  }
  return cases;
}

std::vector<ModelSetup> CombinedSetups() {
  return {{"stable_diffusion_v2_1_512", "a100", {2, 4, 8}},
          {"controlnet_v1_0_512", "a100", {2, 4, 8}},
          {"cdm_lsun_256", "a100", {2, 4, 8}},
          {"cdm_imagenet_256", "a100", {2, 4, 8}},
          {"flux_1024", "h100", {2, 4, 8}}};
}

std::vector<GridCase> CombinedCases(const std::vector<ModelSetup>& setups) {
  std::vector<GridCase> cases;
  for (const ModelSetup& setup : setups) {
    for (int device_batch : setup.device_batches) {
      GridCase c;
      c.model = setup.model;
      c.device = setup.device;
      c.global_batch = device_batch * kOneNode;
      c.contenders = Named({"diffusionpipe", "opendiffusionpipe"});
      for (int stages : {2, 4, 8}) {
        for (int micro_batches : {stages, 2 * stages, 4 * stages}) {
          if (device_batch * stages < micro_batches) continue;
          c.num_stages = stages;
          c.num_micro_batches = micro_batches;
          cases.push_back(c);
        }
      }
      c.num_stages = c.num_micro_batches = 0;
      cases.push_back(c);
    }
  }
  return cases;
}

std::vector<GridEntry> FillSteps() {
  const std::string plain = "diffusionpipe,recompute=none,shard=none";
  const std::string own = plain + ",partitioner=by_bound";
  return {{"as published", "diffusionpipe-paper"},
          {"bubbles of any length", "diffusionpipe-paper,min_bubble_us=0"},
          {"partial batches of any size", "diffusionpipe-paper,min_bubble_us=0,local_batches="},
          {"each sample on one device", own + ",even_samples=true,one_partial=true,fill_walks=1"},
          {"uneven samples", own + ",one_partial=true,fill_walks=1"},
          {"one partial batch per chain", own + ",fill_walks=1"},
          {"several packings", own},
          {"cuts by simulation", plain},
          {"recomputation", "diffusionpipe,shard=none"},
          {"sharded optimizer's state", "diffusionpipe"},
          {"every schedule", "opendiffusionpipe,tune=false"},
          {"tuned orders and cuts", "opendiffusionpipe"}};
}

std::vector<GridCase> FillCases(const std::vector<std::string>& models) {
  std::vector<GridCase> cases;
  for (const ModelSetup& setup : DefaultSetups()) {
    if (setup.model.rfind("cdm_", 0) == 0) continue;  // cascades have no frozen components
    if (!models.empty() && std::count(models.begin(), models.end(), setup.model) == 0) continue;
    for (int device_batch : setup.device_batches) {
      GridCase c;
      c.model = setup.model;
      c.device = setup.device;
      c.global_batch = device_batch * kOneNode;
      c.contenders = FillSteps();
      cases.push_back(c);
      for (int stages : {4, 8}) {
        c.num_stages = stages;
        c.num_micro_batches = 2 * stages;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

std::vector<MapCluster> LinkClusters() {
  return {{"a100_1x8_10g", 8, "10 Gb/s"},
          {"a100_1x8_25g", 8, "25 Gb/s"},
          {"a100_1x8_100g", 8, "100 Gb/s"},
          {"a100_1x8_400g", 8, "400 Gb/s"},
          {"a100_8x1", 8, "NVLink"}};
}

std::vector<MapCluster> SmallClusters() {
  return {{"rtx4090_2x1_10gbe", 2, "2 nodes of a\n24 GB card,\n10 Gb/s"},
          {"rtx4090_4x1_pcie", 4, "4 cards of\n24 GB, PCIe"},
          {"rtx4090_8x1_pcie", 8, "8 cards of\n24 GB, PCIe"},
          {"a100_8x2_100g", 16, "2 nodes of\n8 A100,\n100 Gb/s"}};
}

std::vector<GridEntry> MapContenders() {
  return Named(
      {"data_parallel", "zero1", "zero3", "1f1b", "zb-v", "diffusionpipe", "opendiffusionpipe"});
}

std::vector<std::string> LinkSpeedModels() {
  return {"stable_diffusion_v2_1_512",
          "controlnet_v1_0_512",
          "cdm_lsun_256",
          "sdxl_1024",
          "stable_diffusion_3_5_medium_1024",
          "flux_512"};
}

std::vector<GridCase> LinkSpeedCases(const std::vector<std::string>& models,
                                     const std::vector<int>& device_batches) {
  std::vector<GridCase> cases;
  for (const std::string& model : models) {
    for (const int batch : device_batches) {
      for (const MapCluster& cluster : LinkClusters()) {
        cases.push_back(MapCase(kLinkSpeedChapter, model, cluster, batch));
      }
    }
  }
  return cases;
}

std::vector<GridCase> FineTuningCases(const std::vector<std::string>& models) {
  std::vector<GridCase> cases;
  for (const std::string& model : models) {
    for (const MapCluster& cluster : SmallClusters()) {
      cases.push_back(MapCase(kFineTuningChapter, model, cluster, kFineTuningDeviceBatch));
    }
  }
  return cases;
}

}  // namespace dpipe::bench
