"use strict";
/* Search in pages that are opened from files, where browsers refuse workers: a frame
   that is not shown runs the script of the worker. Served pages keep workers. */

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      const load = (source) => new Promise((done, failed) => {
        const script = inside.document.createElement("script");
        Object.assign(script, { src: source, onload: done, onerror: failed });
        inside.document.body.append(script);
      });
      inside.importScripts = (...sources) => Promise.all(sources.map(load));
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.frame = frame;
      this.loaded = load(address);
    }

    postMessage(data) {
      const event = () => new MessageEvent("message", { data });
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(event()));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
