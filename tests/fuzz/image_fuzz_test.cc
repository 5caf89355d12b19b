// Damaged JPEG, PNG and WebP files: each gives an image within the limits, or an error that names
// the file.
#include <array>
#include <filesystem>

#include "absl/strings/match.h"
#include "core/base/files/file.h"
#include "data/images/image_decode.h"
#include "gtest/gtest.h"
#include "tests/fuzz/mutation.h"

namespace dpipe {
namespace {

constexpr const char* kName = "damaged";

uint32_t Crc32(absl::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> entries;
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int k = 0; k < 8; ++k)
        value = (value & 1) != 0 ? 0xedb88320u ^ (value >> 1) : value >> 1;
      entries[i] = value;
    }
    return entries;
  }();
  uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) crc = table[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

uint32_t BigEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// Corrects the checksum of every chunk that the chunks' lengths lead to.
void FixPngChecksums(std::string* png) {
  size_t at = 8;
  while (at + 12 <= png->size()) {
    const uint64_t length = BigEndian(absl::string_view(*png).substr(at, 4));
    if (length > png->size() - at - 12) return;
    const uint32_t crc = Crc32(absl::string_view(*png).substr(at + 4, length + 4));
    for (int i = 0; i < 4; ++i)
      (*png)[at + 8 + length + i] = static_cast<char>(crc >> (24 - 8 * i));
    at += length + 12;
  }
}

fuzz::Material Images() {
  fuzz::Material material;
  for (const auto& entry : std::filesystem::directory_iterator("data/testdata")) {
    const std::string extension = entry.path().extension().string();
    if (absl::StartsWith(entry.path().filename().string(), "expected")) continue;
    if (extension != ".jpg" && extension != ".png" && extension != ".webp") continue;
    material.files.push_back(ReadFile(entry.path().string()).value());
  }
  std::sort(material.files.begin(), material.files.end());
  // Markers and chunk names.
  material.tokens = {"\xff\xd8", "\xff\xc0", "\xff\xc2", "\xff\xc4", "\xff\xda", "\xff\xdb",
                     "\xff\xdd", "\xff\xe1", "\xff\xee", "Exif",     "MM",       "II",
                     "IHDR",     "PLTE",     "tRNS",     "eXIf",     "iCCP",     "zTXt",
                     "IDAT",     "IEND",     "RIFF",     "WEBP",     "VP8 ",     "VP8L",
                     "VP8X",     "ALPH",     "EXIF",     "ANIM"};
  return material;
}

TEST(ImageFuzzTest, DamagedImagesAreRefusedOrSound) {
  const fuzz::Material material = Images();
  ASSERT_GE(material.files.size(), 20u);
  DecodeLimits limits;
  limits.max_pixels = 200'000;
  int64_t num_errors = 0;
  const int64_t num_iterations = fuzz::NumIterations(3000);
  for (int64_t i = 0; i < num_iterations; ++i) {
    SCOPED_TRACE(i);
    RandomStream random(41, i, 0, RandomPurpose::kTest);
    std::string bytes = fuzz::DamagedFile(random, material);
    if (absl::StartsWith(bytes, "\x89PNG") && random.NextBelow(4) != 0) FixPngChecksums(&bytes);
    const auto size = DecodeImageSize(bytes, kName, limits);
    const auto image = DecodeImage(bytes, kName, limits);
    num_errors += !image.ok();
    if (!image.ok()) {
      ASSERT_TRUE(absl::StartsWith(image.status().message(), "damaged: ")) << image.status();
      continue;
    }
    ASSERT_LE(int64_t{image->width} * image->height, limits.max_pixels);
    ASSERT_EQ(image->pixels.size(), size_t{3} * image->width * image->height);
    // The headers of a decodable image give its size.
    ASSERT_TRUE(size.ok()) << size.status();
    ASSERT_EQ(size->width, image->width);
    ASSERT_EQ(size->height, image->height);
  }
  EXPECT_GT(num_errors, num_iterations / 5);
  EXPECT_LT(num_errors, num_iterations);
  EXPECT_LT(fuzz::PeakMemoryMb(), fuzz::MemoryLimitMb());
}

// Each of these chunks of 7 kilobytes contains 7 megabytes of text. By default, libpng would keep a
// thousand.
TEST(ImageFuzzTest, CompressedTextStaysSmall) {
  const std::string png = ReadFile("data/testdata/color.png").value();
  const std::string bomb = ReadFile("tests/fuzz/testdata/seven_megabytes.zlib").value();
  std::string chunk = "zTXtkey" + std::string(2, '\0') + bomb;
  std::string length(4, '\0');
  for (int i = 0; i < 4; ++i) length[i] = static_cast<char>((chunk.size() - 4) >> (24 - 8 * i));
  chunk = length + chunk + std::string(4, '\0');
  constexpr size_t kHeaderEnd = 33;  // after IHDR
  std::string damaged = png.substr(0, kHeaderEnd);
  for (int i = 0; i < 300; ++i) damaged += chunk;
  damaged += png.substr(kHeaderEnd);
  FixPngChecksums(&damaged);
  const int64_t before = fuzz::PeakMemoryMb();
  const auto image = DecodeImage(damaged, kName);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->pixels, DecodeImage(png, kName)->pixels);
  EXPECT_LT(fuzz::PeakMemoryMb() - before, 200);
}

// A chunk of 26 bytes that claims 1.4 GB. If libpng allocated them, that would exceed the
// sanitizers' limit for one allocation.
TEST(ImageFuzzTest, LengthsAreCheckedBeforeAllocation) {
  const std::string png = ReadFile("data/testdata/color.png").value();
  constexpr size_t kHeaderEnd = 33;  // after IHDR
  const std::string chunk = std::string("\x56\0\0\x1a", 4) + "eXIf" + std::string(18, 'M');
  for (const size_t place : {kHeaderEnd, png.size() - 12}) {
    std::string damaged = png;
    damaged.insert(place, chunk);
    const auto image = DecodeImage(damaged, kName);
    EXPECT_EQ(image.status().message(), "damaged: corrupt PNG: the file is truncated");
  }
}

}  // namespace
}  // namespace dpipe
