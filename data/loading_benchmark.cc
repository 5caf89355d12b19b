// Measures the cost of an image before it reaches a device: opening a folder, decoding, resizing,
// and a loader's batches from a folder and from a tar shard. Batches are loaded without a cache,
// from the cache, and prefetched.
//
//   bazel run -c opt //data:loading_benchmark
//
// Results are checked: every path returns the pixels of the images that were written.

#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "benchmark/benchmark.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "core/base/philox.h"
#include "data/images/image_decode.h"
#include "data/images/image_encode.h"
#include "data/images/image_resize.h"
#include "data/loader.h"
#include "data/open_samples.h"
#include "data/order/image_sizes.h"
#include "data/order/sample_order.h"
#include "data/testing/tar_for_test.h"

namespace dpipe {
namespace {

constexpr int kImages = 64;
constexpr int kBatch = 16;
constexpr int kSide = 256;        // of the images in files
constexpr int kTrainedSide = 64;  // of the images that are trained on

// A smooth image with some noise, which compresses like a photograph.
Image Picture(int side, uint32_t number) {
  RandomStream random(7, 0, number, RandomPurpose::kTest);
  Image image(side, side);
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      for (int c = 0; c < 3; ++c) {
        const double wave = std::sin(0.02 * (x + number) + c) * std::cos(0.03 * y);
        image.At(x, y)[c] = static_cast<uint8_t>(120 + 90 * wave + 8 * random.NextUniform());
      }
    }
  }
  return image;
}

// Reports the throughput in images.
void Count(benchmark::State& state, int64_t images) {
  state.SetItemsProcessed(state.iterations() * images);
}

void BM_Decode(benchmark::State& state, bool png) {
  const Image image = Picture(static_cast<int>(state.range(0)), 0);
  const auto bytes = png ? EncodePng(image) : EncodeJpeg(image);
  DPIPE_CHECK(bytes.ok());
  for (auto _ : state) {
    const auto decoded = DecodeImage(*bytes, "picture");
    DPIPE_CHECK(decoded.ok() && decoded->width == image.width);
    DPIPE_CHECK(!png || decoded->pixels == image.pixels);
  }
  Count(state, 1);
}
BENCHMARK_CAPTURE(BM_Decode, png, true)->Arg(64)->Arg(512)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_Decode, jpeg, false)->Arg(64)->Arg(512)->Unit(benchmark::kMicrosecond);

void BM_Resize(benchmark::State& state) {
  const Image image = Picture(512, 0);
  const int side = static_cast<int>(state.range(0));
  for (auto _ : state) {
    const Image small = ResizeImage(image, side, side);
    DPIPE_CHECK(small.width == side);
    benchmark::DoNotOptimize(small.pixels.data());
  }
  Count(state, 1);
}
BENCHMARK(BM_Resize)->Arg(64)->Arg(256)->Arg(1024)->Unit(benchmark::kMicrosecond);

void BM_SampleOrder(benchmark::State& state) {
  const int32_t size = static_cast<int32_t>(state.range(0));
  const SampleOrder order(1, size);
  int64_t position = 0;
  for (auto _ : state) {
    const int32_t sample = order.At(position++);
    DPIPE_CHECK(0 <= sample && sample < size);
  }
}
BENCHMARK(BM_SampleOrder)->Arg(1 << 12)->Arg(1 << 20);

// A folder and a tar shard of the same images, created once and removed at exit.
class Samples {
 public:
  static const Samples& Get() {
    static const Samples samples;
    return samples;
  }

  std::string Where(bool tar) const { return tar ? root_ + "/shard.tar" : root_ + "/folder"; }

 private:
  Samples() {
    DPIPE_CHECK(MakeFolder(root_ + "/folder").ok());
    std::vector<std::pair<std::string, std::string>> members;
    for (int i = 0; i < kImages; ++i) {
      const auto jpeg = EncodeJpeg(Picture(kSide, i));
      DPIPE_CHECK(jpeg.ok());
      const std::string name = absl::StrFormat("%04d", i);
      members.emplace_back(name + ".jpg", *jpeg);
      members.emplace_back(name + ".txt", absl::StrCat("picture ", i));
    }
    for (const auto& [name, content] : members) {
      DPIPE_CHECK(WriteFileAtomically(root_ + "/folder/" + name, content).ok());
    }
    DPIPE_CHECK(WriteFileAtomically(root_ + "/shard.tar", MakeTar(members)).ok());
  }

  ScratchFolder scratch_;
  const std::string root_ = scratch_.path();
};

// Opens a folder without reading images: lists it, or reads its metadata.jsonl, the captions, and
// the sizes of the files, which are empty here.
void BM_OpenFolder(benchmark::State& state, bool has_metadata) {
  const ScratchFolder scratch;
  const auto write = [&](const std::string& name, const std::string& content) {
    std::ofstream file(scratch.File(name));
    DPIPE_CHECK(file.write(content.data(), content.size()).good());
  };
  std::string metadata;
  for (int i = 0; i < state.range(0); ++i) {
    const std::string name = absl::StrFormat("%06d", i), caption = "a photograph of a street";
    write(name + ".jpg", "");
    if (!has_metadata) write(name + ".txt", caption);
    absl::StrAppend(&metadata, "{\"file_name\": \"", name, ".jpg\", \"text\": \"", caption,
                    "\"}\n");
  }
  if (has_metadata) write("metadata.jsonl", metadata);
  for (auto _ : state) {
    const auto samples = OpenSamples(scratch.path());
    DPIPE_CHECK(samples.ok() && (*samples)->size() == state.range(0));
  }
  Count(state, state.range(0));
}
BENCHMARK_CAPTURE(BM_OpenFolder, metadata, true)->Arg(100'000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_OpenFolder, sidecars, false)->Arg(100'000)->Unit(benchmark::kMillisecond);

// Reads the sizes of all images of a folder, which bucketed training needs before it begins: from
// the headers, or as saved by an earlier run. The files are in the page cache.
void BM_ImageSizes(benchmark::State& state, bool remembered) {
  const ScratchFolder scratch;
  const auto jpeg = EncodeJpeg(Picture(kSide, 0));
  DPIPE_CHECK(jpeg.ok());
  DPIPE_CHECK(MakeFolder(scratch.File("images")).ok());
  for (int i = 0; i < state.range(0); ++i) {
    const std::string stem = scratch.File(absl::StrFormat("images/%06d", i));
    std::ofstream(stem + ".jpg") << *jpeg;
    std::ofstream(stem + ".txt") << "a photograph of a street";
  }
  const auto samples = OpenSamples(scratch.File("images"));
  DPIPE_CHECK(samples.ok());
  const std::string path = remembered ? scratch.File("sizes") : "";
  ImageSizes first(path);
  first.Read(**samples);
  DPIPE_CHECK(first.Save().ok());
  for (auto _ : state) {
    ImageSizes sizes(path);
    const auto found = sizes.Read(**samples);
    DPIPE_CHECK(found.back().ok() && found.back()->width == kSide);
    DPIPE_CHECK(sizes.num_read() == (remembered ? 0 : state.range(0)));
  }
  Count(state, state.range(0));
}
BENCHMARK_CAPTURE(BM_ImageSizes, headers, false)->Arg(20'000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_ImageSizes, remembered, true)->Arg(20'000)->Unit(benchmark::kMillisecond);

std::unique_ptr<DataLoader> Loader(bool tar, int64_t cache_bytes, int prefetch_threads) {
  DataLoaderOptions options;
  options.global_batch = kBatch;
  options.image_size = kTrainedSide;
  options.cache_bytes = cache_bytes;
  options.prefetch_threads = prefetch_threads;
  auto samples = OpenSamples(Samples::Get().Where(tar));
  DPIPE_CHECK(samples.ok());
  auto loader = DataLoader::Create(*std::move(samples), options);
  DPIPE_CHECK(loader.ok());
  return *std::move(loader);
}

double SumOf(const std::vector<float>& pixels) {
  double sum = 0;
  for (const float pixel : pixels) sum += pixel;
  return sum;
}

// Loads one batch after another. The waits between them are not timed: `ahead` gives the background
// threads the time that a training step would take.
void LoadBatches(benchmark::State& state, DataLoader* loader, bool ahead) {
  std::vector<float> pixels(static_cast<size_t>(kBatch) * kTrainedSide * kTrainedSide * 3);
  const auto reference = Loader(/*tar=*/false, 0, 0);
  DPIPE_CHECK(reference->LoadPixels(0, {0, kBatch}, pixels.data()).ok());
  const double expected = SumOf(pixels);
  DPIPE_CHECK(loader->LoadPixels(0, {0, kBatch}, pixels.data()).ok());
  DPIPE_CHECK(SumOf(pixels) == expected);
  int64_t step = 0;
  for (auto _ : state) {
    if (ahead) {
      state.PauseTiming();
      loader->WaitForPrefetch();
      state.ResumeTiming();
    }
    DPIPE_CHECK(loader->LoadPixels(++step, {0, kBatch}, pixels.data()).ok());
  }
  Count(state, kBatch);
}

void BM_LoadUncached(benchmark::State& state, bool tar) {
  const auto loader = Loader(tar, /*cache_bytes=*/0, /*prefetch_threads=*/0);
  LoadBatches(state, loader.get(), /*ahead=*/false);
}
BENCHMARK_CAPTURE(BM_LoadUncached, folder, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_LoadUncached, tar, true)->Unit(benchmark::kMicrosecond);

void BM_LoadFromMemory(benchmark::State& state) {
  const auto loader = Loader(/*tar=*/false, 64 * kMiB, /*prefetch_threads=*/0);
  std::vector<float> pixels(static_cast<size_t>(kBatch) * kTrainedSide * kTrainedSide * 3);
  for (int step = 0; step < kImages / kBatch; ++step) {
    DPIPE_CHECK(loader->LoadPixels(step, {0, kBatch}, pixels.data()).ok());
  }
  LoadBatches(state, loader.get(), /*ahead=*/false);
}
BENCHMARK(BM_LoadFromMemory)->Unit(benchmark::kMicrosecond);

// The cache holds only the prefetched batches, so every image is decoded for its step.
void BM_LoadPrefetched(benchmark::State& state) {
  constexpr int64_t kImageBytes = int64_t{kTrainedSide} * kTrainedSide * 3;
  const auto loader = Loader(/*tar=*/false, 3 * kBatch * kImageBytes, /*prefetch_threads=*/1);
  LoadBatches(state, loader.get(), /*ahead=*/true);
}
BENCHMARK(BM_LoadPrefetched)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace dpipe

BENCHMARK_MAIN();
