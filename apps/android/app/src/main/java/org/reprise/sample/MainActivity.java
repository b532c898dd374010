package org.reprise.sample;

import android.app.Activity;
import android.content.res.AssetManager;
import android.os.Bundle;
import android.widget.TextView;

/** Runs the package in the assets and shows how long that takes. */
public final class MainActivity extends Activity {
    static {
        System.loadLibrary("sample");
    }

    private static native String run(AssetManager assets, String name, String cacheFolder);

    @Override
    protected void onCreate(Bundle state) {
        super.onCreate(state);
        TextView text = new TextView(this);
        text.setText("...");
        setContentView(text);
        String cache = getCodeCacheDir().getPath();
        new Thread(() -> {
            String result = run(getAssets(), "model.rpk", cache);
            runOnUiThread(() -> text.setText(result));
        }).start();
    }
}
