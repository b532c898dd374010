// What Java calls: opens a package in the assets of the application, without a copy of it.
#include <android/asset_manager.h>
#include <android/asset_manager_jni.h>
#include <jni.h>
#include <unistd.h>

#include "apps/android/app/src/main/cpp/measure.h"

namespace {

std::string text(JNIEnv* env, jstring from) {
  const char* chars = env->GetStringUTFChars(from, nullptr);
  std::string out = chars ? chars : "";
  if (chars) env->ReleaseStringUTFChars(from, chars);
  return out;
}

reprise::Result<reprise::Package> open_asset(AAssetManager* assets, const std::string& name) {
  AAsset* asset = AAssetManager_open(assets, name.c_str(), AASSET_MODE_UNKNOWN);
  if (!asset) return reprise::Error{REPRISE_IO, name + " is not in the assets"};
  off64_t offset = 0, length = 0;
  const int file = AAsset_openFileDescriptor64(asset, &offset, &length);
  AAsset_close(asset);
  if (file < 0) {
    return reprise::Error{REPRISE_IO, name +
                                          " is compressed; add its suffix to noCompress in "
                                          "build.gradle.kts"};
  }
  auto package = reprise::Package::open_part(file, static_cast<uint64_t>(offset),
                                             static_cast<uint64_t>(length));
  close(file);
  return package;
}

}  // namespace

extern "C" JNIEXPORT jstring JNICALL Java_org_reprise_sample_MainActivity_run(
    JNIEnv* env, jclass, jobject manager, jstring name, jstring cache_folder) {
  AAssetManager* assets = AAssetManager_fromJava(env, manager);
  const std::string result =
      reprise::sample::measure(open_asset(assets, text(env, name)), text(env, cache_folder));
  return env->NewStringUTF(result.c_str());
}
